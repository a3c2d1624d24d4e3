//! Properties of the machine: available memory and processors.

use std::io::Read as _;
use std::sync::OnceLock;

/// The available memory assumed if the system does not report it.
const UNKNOWN_MEMORY: u64 = 4 << 30;

/// Bytes that can be allocated now without swapping, taking limits of control groups into account.
pub fn available_memory() -> u64 {
    let system = read_number("/proc/meminfo", Some("MemAvailable:")).map(|kib| kib.saturating_mul(1024));
    let free = system.unwrap_or(UNKNOWN_MEMORY);
    group_headroom().map_or(free, |headroom| free.min(headroom))
}

/// The number of processors this process may use, found once: the system reads several files for it.
pub fn available_processors() -> usize {
    static FOUND: OnceLock<usize> = OnceLock::new();
    *FOUND.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// Limit minus usage of the memory control group, version 2 or 1; `None` if there is no limit.
fn group_headroom() -> Option<u64> {
    const GROUPS: [(&str, &str); 2] = [
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ];
    GROUPS.iter().find_map(|(limit, used)| {
        Some(read_number(limit, None)?.saturating_sub(read_number(used, None).unwrap_or(0)))
    })
}

/// The number after `key` in a text file, or the first word if there is no key; `None` if it is not a number
/// (such as `max`).
fn read_number(path: &str, key: Option<&str>) -> Option<u64> {
    // A buffer on the stack: memory is asked for in the middle of queries whose allocations are bounded, and
    // the numbers are all in the first few lines.
    let mut buffer = [0; 1024];
    let read = std::fs::File::open(path).ok()?.read(&mut buffer).ok()?;
    let complete = if read < buffer.len() { read } else { buffer.iter().rposition(|&byte| byte == b'\n')? };
    let text = std::str::from_utf8(&buffer[..complete]).ok()?;
    let rest = match key {
        Some(key) => text.lines().find_map(|line| line.strip_prefix(key))?,
        None => text,
    };
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_plausible() {
        assert!(available_memory() > 1 << 20);
        assert!(available_processors() >= 1);
    }

    #[test]
    fn a_missing_or_unlimited_file_is_none() {
        assert_eq!(read_number("/nonexistent", None), None);
    }
}
