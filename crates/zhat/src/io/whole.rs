//! Atomic file output: files are written under a temporary name, synced and renamed, so that a reader never
//! sees a partial file.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::{Error, Result};

/// The temporary files of writes in progress. They are created and renamed under this lock.
static TEMPORARY: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Maximum number of symbolic links to follow.
const LINKS: usize = 40;

fn temporary() -> MutexGuard<'static, Vec<PathBuf>> {
    TEMPORARY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes the temporary files of all writes in progress and prevents them from finishing. For a process that
/// is about to exit.
///
/// ```
/// use zhat::internal::io;
/// let folder = std::env::temp_dir().join(format!("zhat-doc-{}", std::process::id()));
/// std::fs::create_dir_all(&folder)?;
/// io::write_atomically(&folder.join("file"), |out| out.write_all(b"text"))?;
/// drop(io::abandon_writes());
/// assert_eq!(std::fs::read_dir(&folder)?.count(), 1);
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn abandon_writes() -> Abandoned {
    let mut files = temporary();
    for file in files.drain(..) {
        // The process is about to exit, so a failure cannot be reported.
        let _ = std::fs::remove_file(file);
    }
    Abandoned { _held: files }
}

/// No write can finish while this is held.
#[must_use = "writes go on once this is dropped"]
pub struct Abandoned {
    _held: MutexGuard<'static, Vec<PathBuf>>,
}

/// Writes to a temporary file beside `path`, syncs and renames it, so that `path` is never a partial file.
///
/// A symbolic link is kept and its target replaced. Anything that is not a regular file, such as a pipe or
/// `/dev/null`, is written to directly.
///
/// # Errors
/// If the path is not a file name, the file cannot be written, or `write` fails.
pub fn write_atomically(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
) -> Result<()> {
    let fail = |source| Error::io(path, source);
    let target = followed(path).map_err(fail)?;
    let before = std::fs::metadata(&target).ok();
    if before.as_ref().is_some_and(|found| !found.is_file() && !found.is_dir()) {
        let attempt = || {
            let mut out = BufWriter::new(File::options().write(true).open(&target)?);
            write(&mut out)?;
            out.flush()
        };
        return attempt().map_err(fail);
    }
    let file_name = target.file_name().ok_or_else(|| {
        Error::argument(path.display().to_string(), "is not the name of a file that can be written")
    })?;
    let mut name = file_name.to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let name = target.with_file_name(name);
    let attempt = || {
        let file = {
            let mut files = temporary();
            files.push(name.clone());
            File::create(&name)?
        };
        let mut out = BufWriter::new(file);
        write(&mut out)?;
        out.flush()?;
        if let Some(before) = before {
            out.get_ref().set_permissions(before.permissions())?;
        }
        out.get_ref().sync_all()?;
        let mut files = temporary();
        std::fs::rename(&name, &target)?;
        files.retain(|file| *file != name);
        Ok(())
    };
    attempt().map_err(|source| {
        // The first error is the one to report; the temporary file may not even exist.
        let _ = std::fs::remove_file(&name);
        temporary().retain(|file| *file != name);
        fail(source)
    })
}

/// The target of symbolic links; it need not exist.
fn followed(path: &Path) -> std::io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        match std::fs::read_link(&path) {
            // A relative target starts from the folder of the link; an absolute one replaces the path.
            Ok(target) => path = path.parent().map_or_else(|| target.clone(), |folder| folder.join(&target)),
            Err(_) => return Ok(path),
        }
    }
    Err(std::io::Error::other("too many levels of symbolic links"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(unix)]
    fn a_link_stays_and_its_target_is_replaced() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = std::env::temp_dir().join(format!("zhat-links-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("deep")).unwrap();
        std::fs::write(folder.join("deep/target"), "old").unwrap();
        std::fs::set_permissions(folder.join("deep/target"), PermissionsExt::from_mode(0o640)).unwrap();
        symlink("deep/target", folder.join("relative")).unwrap();
        symlink(folder.join("relative"), folder.join("chain")).unwrap();
        symlink("deep/new", folder.join("dangling")).unwrap();
        symlink("loop", folder.join("loop")).unwrap();
        let text = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
        for (link, target) in
            [("relative", "deep/target"), ("chain", "deep/target"), ("dangling", "deep/new")]
        {
            write_atomically(&folder.join(link), |out| write!(out, "by {link}")).unwrap();
            assert!(folder.join(link).is_symlink(), "{link}");
            assert_eq!(text(target), format!("by {link}"));
        }
        let mode = std::fs::metadata(folder.join("deep/target")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        assert!(
            write_atomically(&folder.join("loop"), |_| Ok(())).unwrap_err().to_string().contains("levels")
        );
        write_atomically(Path::new("/dev/null"), |out| write!(out, "text")).unwrap();
        assert!(!std::fs::metadata("/dev/null").unwrap().is_file());
        std::fs::remove_dir_all(folder).unwrap();
    }
}
