//! `cargo xtask data mushroom FOLDER`: downloads data sets that the repository may not include from public
//! sources.

use std::fs;
use std::path::{Path, PathBuf};

use crate::shell::{Outcome, Step};

/// A file in a package of the Rust registry.
struct Source {
    package: &'static str,
    version: &'static str,
    file: &'static str,
    sha256: &'static str,
    /// The destination path relative to the folder.
    place: &'static str,
}

/// The UCI mushroom table: 8124 rows and 23 columns, without a header.
const MUSHROOM: Source = Source {
    package: "xgboost-sys",
    version: "0.1.2",
    file: "xgboost/demo/binary_classification/agaricus-lepiota.data",
    sha256: "e65d082030501a3ebcbcd7c9f7c71aa9d28fdfff463bf4cf4716a3fe13ac360e",
    place: "data/mushroom/agaricus-lepiota.data",
};

pub fn mushroom(folder: &str) -> Outcome {
    fetch(&MUSHROOM, &std::path::absolute(folder).map_err(|error| error.to_string())?)
}

fn fetch(source: &Source, folder: &Path) -> Outcome {
    let fail = |error: std::io::Error| error.to_string();
    // Cargo downloads packages only for a project, so this creates a temporary one.
    let project = std::env::temp_dir().join(format!("zhat-data-{}", std::process::id()));
    fs::create_dir_all(project.join("src")).map_err(fail)?;
    fs::write(project.join("src/lib.rs"), "").map_err(fail)?;
    let manifest = format!(
        "[package]\nname = \"data\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\n[dependencies]\n{} = \"={}\"\n",
        source.package, source.version
    );
    fs::write(project.join("Cargo.toml"), manifest).map_err(fail)?;
    let fetched = Step::cargo(&["vendor", "--quiet", "vendor"])
        .with(|command| {
            command.current_dir(&project).stdout(std::process::Stdio::null());
        })
        .run()
        .and_then(|()| take(source, &project.join("vendor").join(source.package).join(source.file), folder));
    let _ = fs::remove_dir_all(&project);
    let path = fetched?;
    eprintln!("{} is there; commands find it with ZHAT_DATA={}", path.display(), folder.display());
    Ok(())
}

fn take(source: &Source, from: &Path, folder: &Path) -> Outcome<PathBuf> {
    let hash = "import hashlib, sys; print(hashlib.sha256(open(sys.argv[1], 'rb').read()).hexdigest())";
    let found = Step::new("python3", &["-c", hash, &from.to_string_lossy()]).output()?;
    if found != source.sha256 {
        return Err(format!("{} has the checksum {found}, expected {}", source.file, source.sha256));
    }
    let to = folder.join(source.place);
    let parent = to.parent().unwrap_or(folder);
    fs::create_dir_all(parent).and_then(|()| fs::copy(from, &to)).map_err(|error| error.to_string())?;
    Ok(to)
}
