//! What the operating system and the GPU's driver say about the machine.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::posterior::Engine;

/// The name of the GPU or of the processor.
pub fn name(engine: Engine) -> String {
    if engine == Engine::Device
        && let Some(name) = ask("name")
    {
        return name;
    }
    let list = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = list.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let model = model.map_or(std::env::consts::ARCH, |(_, name)| name.trim());
    format!("{model}, {threads} threads")
}

/// An answer of the GPU's driver.
fn ask(what: &str) -> Option<String> {
    let query = format!("--query-gpu={what}");
    let asked = Command::new("nvidia-smi").args([&query, "--format=csv,noheader,nounits"]).output().ok()?;
    let text = String::from_utf8_lossy(&asked.stdout).into_owned();
    text.lines().next().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty())
}

/// The memory of this process on the GPU in GiB; NaN if the driver does not tell.
fn gpu() -> f64 {
    let arguments = ["--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"];
    let asked = Command::new("nvidia-smi").args(arguments).output();
    let text = asked.map(|found| String::from_utf8_lossy(&found.stdout).into_owned()).unwrap_or_default();
    of_process(&text, std::process::id()).map_or(f64::NAN, |mib| mib / 1024.0)
}

/// The memory of a process on all GPUs from lines `pid, MiB`. Inside a container the driver may list no process, or list
/// them under other numbers; then the memory is not known.
fn of_process(text: &str, process: u32) -> Option<f64> {
    let own = text.lines().filter_map(|line| {
        let (id, used) = line.split_once(',')?;
        (id.trim().parse() == Ok(process)).then(|| used.trim().parse::<f64>().ok())
    });
    own.reduce(|a, b| Some(a? + b?)).flatten()
}

/// Watches the memory in use. Of a GPU it is what the driver says every second of this process, which includes memory
/// that it keeps for later; a row has memory of its own only in a process of its own.
pub struct Watch {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<f64>>,
}

impl Watch {
    /// Begins to watch.
    pub fn start(engine: Engine) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        if engine == Engine::Library {
            // Sets the largest memory of the process back to the present one.
            let _ = std::fs::write("/proc/self/clear_refs", "5");
            return Watch { stop, thread: None };
        }
        let told = stop.clone();
        let watch = move || {
            let mut most = gpu();
            while !told.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_secs(1));
                most = most.max(gpu());
            }
            most
        };
        Watch { stop, thread: Some(std::thread::spawn(watch)) }
    }

    /// The largest memory since, in GiB.
    pub fn stop(mut self) -> f64 {
        self.stop.store(true, Ordering::Relaxed);
        match self.thread.take() {
            Some(thread) => thread.join().unwrap_or(f64::NAN),
            None => process(),
        }
    }
}

/// The largest memory of this process in GiB.
fn process() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)).and_then(|x| x.parse::<f64>().ok());
    kib.map_or(f64::NAN, |kib| kib / 1024.0 / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::of_process;

    #[test]
    fn memory_is_that_of_the_process() {
        let text = "812, 30000\n4711, 1500\n4711, 500\n47110, 7\n";
        assert_eq!(of_process(text, 4711), Some(2000.0));
        assert_eq!(of_process(text, 471), None);
        assert_eq!(of_process("4711, [N/A]\n", 4711), None);
        assert_eq!(of_process("", 4711), None);
        assert_eq!(of_process("No running processes found\n", 4711), None);
    }
}
