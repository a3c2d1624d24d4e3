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

/// An answer of the GPU's driver about the GPU that is used.
fn ask(what: &str) -> Option<String> {
    let mut command = Command::new("nvidia-smi");
    command.args([&format!("--query-gpu={what}"), "--format=csv,noheader,nounits"]);
    // CUDA counts only the GPUs that are named here, the driver all of them.
    let visible = std::env::var("CUDA_VISIBLE_DEVICES").unwrap_or_default();
    if let Some(first) = visible.split(',').next().map(str::trim).filter(|first| !first.is_empty()) {
        command.arg(format!("--id={first}"));
    }
    let asked = command.output().ok()?;
    let text = String::from_utf8_lossy(&asked.stdout).into_owned();
    text.lines()
        .next()
        .map(|line| line.trim().to_owned())
        .filter(|line| asked.status.success() && !line.is_empty())
}

/// The memory of this process on all GPUs in GiB; NaN if the driver does not list the process.
fn of_this_process() -> f64 {
    let arguments = ["--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"];
    let asked = Command::new("nvidia-smi").args(arguments).output();
    let text = asked.map(|found| String::from_utf8_lossy(&found.stdout).into_owned()).unwrap_or_default();
    of_process(&text, std::process::id()).map_or(f64::NAN, |mib| mib / 1024.0)
}

/// The memory in use on the GPU in GiB, by all processes; NaN if the driver does not tell.
fn of_the_device() -> f64 {
    ask("memory.used").and_then(|mib| mib.parse::<f64>().ok()).map_or(f64::NAN, |mib| mib / 1024.0)
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

/// The largest memory of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Memory {
    /// In GiB; NaN if it is not known.
    pub gib: f64,
    /// Of all processes on the GPU, not of this one.
    pub whole_device: bool,
}

impl Memory {
    /// From the largest memory of the process and that of the device, of which each may be NaN.
    fn new(process: f64, device: f64) -> Self {
        let whole_device = process.is_nan() && !device.is_nan();
        Memory { gib: if whole_device { device } else { process }, whole_device }
    }
}

/// Watches the memory in use. Of a GPU it is what the driver says every second of this process, which includes memory
/// that it keeps for later; a row has memory of its own only in a process of its own. Where the driver does not list the
/// process, it is the memory in use on the device.
pub struct Watch {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Memory>>,
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
            let (mut own, mut all) = (of_this_process(), of_the_device());
            while !told.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_secs(1));
                own = own.max(of_this_process());
                all = all.max(of_the_device());
            }
            Memory::new(own, all)
        };
        Watch { stop, thread: Some(std::thread::spawn(watch)) }
    }

    /// The largest memory since.
    pub fn stop(mut self) -> Memory {
        self.stop.store(true, Ordering::Relaxed);
        match self.thread.take() {
            Some(thread) => thread.join().unwrap_or(Memory::new(f64::NAN, f64::NAN)),
            None => Memory::new(process(), f64::NAN),
        }
    }
}

/// A run that panics is not watched any longer.
impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
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
    use super::{Memory, of_process};

    #[test]
    fn memory_is_that_of_the_process() {
        let text = "812, 30000\n4711, 1500\n4711, 500\n47110, 7\n";
        assert_eq!(of_process(text, 4711), Some(2000.0));
        assert_eq!(of_process(text, 471), None);
        assert_eq!(of_process("4711, [N/A]\n", 4711), None);
        assert_eq!(of_process("", 4711), None);
        assert_eq!(of_process("No running processes found\n", 4711), None);
    }
    #[test]
    fn memory_of_the_device_is_labelled() {
        assert_eq!(Memory::new(2.0, 7.0), Memory { gib: 2.0, whole_device: false });
        assert_eq!(Memory::new(f64::NAN, 7.0), Memory { gib: 7.0, whole_device: true });
        let unknown = Memory::new(f64::NAN, f64::NAN);
        assert!(unknown.gib.is_nan() && !unknown.whole_device);
    }
}
