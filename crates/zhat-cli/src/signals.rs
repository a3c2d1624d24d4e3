//! SIGINT (Ctrl-C), SIGTERM and SIGHUP.
//!
//! A signal sets a flag that every run shares. While a method is at work ([`attention`]) the method then
//! returns the best result so far, which is printed or written; one that has not returned within half a
//! second is ended with the process. At any other time (reading, writing, printing), and for a second signal,
//! the process removes its temporary files and exits. The exit status is 128 + the number of the signal.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use zhat::Error;

use crate::output;

/// The signal that came first; 0 if none did.
static RECEIVED: AtomicI32 = AtomicI32::new(0);
/// Methods at work that return a result when the flag is set; once a signal came, also what is done with
/// their results.
static ATTENDING: AtomicUsize = AtomicUsize::new(0);
/// Methods at work that have to return soon after.
static WORKING: AtomicUsize = AtomicUsize::new(0);
/// How long a method may take to return after a signal.
const PATIENCE: Duration = Duration::from_millis(450);

/// Begins to listen; `json` says whether an error is to be printed as JSON too. Signals that come earlier end
/// the process by default.
pub fn listen(json: bool) {
    static LISTENING: OnceLock<()> = OnceLock::new();
    LISTENING.get_or_init(|| {
        // Without a handler a signal ends the process at once, which is the default of any program.
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
            std::thread::sleep(PATIENCE);
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
    // Held until the end, so that no file gets its name from now on.
    let _held = zhat::io::abandon_writes();
    eprintln!("zhat: {}", Error::Interrupted);
    // The lock of stdout may be held for ever by a thread whose reader has stopped.
    if json && !output::has_begun() {
        crate::print_error_object(Error::Interrupted.kind(), &Error::Interrupted.to_string());
    }
    signal_hook::low_level::exit(status().into());
}

/// The flag that a signal sets.
pub fn flag() -> Arc<AtomicBool> {
    static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    Arc::clone(FLAG.get_or_init(Arc::default))
}

/// True once a signal came.
pub fn received() -> bool {
    RECEIVED.load(Ordering::SeqCst) != 0
}

/// The exit status of a process that a signal ended.
pub fn status() -> u8 {
    match RECEIVED.load(Ordering::SeqCst) {
        0 => 130,
        signal => 128u8.saturating_add(u8::try_from(signal).unwrap_or(0)),
    }
}

/// A method is at work that returns a result when the flag is set.
#[must_use = "a signal ends the process at once when this is dropped"]
pub struct Attention {
    limited: bool,
}

/// Leaves it to the method at work to answer a signal, until the returned value is dropped; if a signal came
/// by then, what follows is left alone as well.
pub fn attention() -> Attention {
    attend(true)
}

/// The same for learning, however long its current step takes: what was learned so far is worth waiting for.
/// A second signal ends the process.
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
