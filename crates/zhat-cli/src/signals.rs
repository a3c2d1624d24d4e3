//! SIGINT (Ctrl-C), SIGTERM and SIGHUP.
//!
//! A signal sets a flag shared by all runs. While a method is running ([`attention`]), it then returns the
//! best result so far, which is printed or written; if it does not return within half a second, the process
//! exits. At any other time (reading, writing, printing), and after a second signal, the process removes its
//! temporary files and exits. The exit status is 128 + the signal number.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use zhat::Error;

use crate::output;

/// The first signal received; 0 if none.
static RECEIVED: AtomicI32 = AtomicI32::new(0);
/// Number of running methods that return a result when the flag is set. After a signal it is not decremented,
/// so that printing their results is not interrupted.
static ATTENDING: AtomicUsize = AtomicUsize::new(0);
/// Number of running methods that must return within [`GRACE`] after a signal.
static WORKING: AtomicUsize = AtomicUsize::new(0);
/// Time that a method may take to return after a signal.
const GRACE: Duration = Duration::from_millis(450);

/// Installs the signal handlers; `json` says whether an error is also printed as JSON. Earlier signals have
/// their default effect and end the process.
pub fn listen(json: bool) {
    static LISTENING: OnceLock<()> = OnceLock::new();
    LISTENING.get_or_init(|| {
        // If the handlers cannot be installed, signals keep their default effect and end the process.
        if let Ok(mut signals) = Signals::new([SIGINT, SIGTERM, SIGHUP]) {
            std::thread::spawn(move || signals.forever().for_each(|signal| receive(signal, json)));
        }
    });
}

fn receive(signal: i32, json: bool) {
    let first = RECEIVED.compare_exchange(0, signal, Ordering::SeqCst, Ordering::SeqCst).is_ok();
    if first && ATTENDING.load(Ordering::SeqCst) > 0 {
        flag().store(true, Ordering::SeqCst);
        std::thread::spawn(move || {
            std::thread::sleep(GRACE);
            if WORKING.load(Ordering::SeqCst) > 0 {
                end(json);
            }
        });
        return;
    }
    end(json);
}

/// Ends the process.
fn end(json: bool) {
    // Held until the process exits, so that no temporary file is renamed to its final name from here on.
    let _held = zhat::internal::io::abandon_writes();
    eprintln!("zhat: {}", Error::Interrupted);
    // If output has started, a thread blocked on a slow reader may hold the lock of stdout forever.
    if json && !output::has_begun() {
        crate::print_error_object(Error::Interrupted.kind(), &Error::Interrupted.to_string());
    }
    signal_hook::low_level::exit(status().into());
}

/// The flag set by signals.
pub fn flag() -> Arc<AtomicBool> {
    static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    Arc::clone(FLAG.get_or_init(Arc::default))
}

/// True after a signal was received.
pub fn received() -> bool {
    RECEIVED.load(Ordering::SeqCst) != 0
}

/// The exit status after a signal.
pub fn status() -> u8 {
    match RECEIVED.load(Ordering::SeqCst) {
        0 => 130,
        signal => 128u8.saturating_add(u8::try_from(signal).unwrap_or(0)),
    }
}

/// Guard for a running method that returns a result when the flag is set.
#[must_use = "a signal ends the process at once when this is dropped"]
pub struct Attention {
    limited: bool,
}

/// Until the returned guard is dropped, a signal does not end the process at once but lets the running method
/// return its result. If a signal was received by then, the code that follows is not interrupted either.
pub fn attention() -> Attention {
    attend(true)
}

/// The same for training, without a time limit for the current step, so that the model so far is not lost. A
/// second signal ends the process.
pub fn patient_attention() -> Attention {
    attend(false)
}

fn attend(limited: bool) -> Attention {
    ATTENDING.fetch_add(1, Ordering::SeqCst);
    WORKING.fetch_add(usize::from(limited), Ordering::SeqCst);
    Attention { limited }
}

impl Drop for Attention {
    fn drop(&mut self) {
        WORKING.fetch_sub(usize::from(self.limited), Ordering::SeqCst);
        if !received() {
            ATTENDING.fetch_sub(1, Ordering::SeqCst);
        }
    }
}
