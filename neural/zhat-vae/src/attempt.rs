//! Panics of other crates as errors with their own message.

use std::panic::{UnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Result, bail};

/// Does some work. If it panics, prints nothing and returns the message of the first panic, which may be that of another
/// thread that the work waits for.
///
/// The hook of panics is global: do nothing else meanwhile.
///
/// # Errors
/// If the work panics.
pub fn attempt<T>(work: impl FnOnce() -> T + UnwindSafe) -> Result<T> {
    let messages = Arc::new(Mutex::new(Vec::new()));
    let heard = messages.clone();
    let hook = take_hook();
    set_hook(Box::new(move |panic| {
        let text = panic.payload_as_str().unwrap_or("a panic without a message").trim().to_owned();
        heard.lock().unwrap_or_else(PoisonError::into_inner).push(text);
    }));
    let found = catch_unwind(work);
    set_hook(hook);
    match found {
        Ok(value) => Ok(value),
        Err(_) => {
            let messages = messages.lock().unwrap_or_else(PoisonError::into_inner);
            bail!("{}", messages.first().map_or("a panic without a message", String::as_str))
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::attempt;

    #[test]
    fn a_panic_is_an_error_with_its_message() {
        assert_eq!(attempt(|| 3).unwrap(), 3);
        let message = |work: fn()| attempt(work).unwrap_err().to_string();
        assert_eq!(message(|| panic!("libnvrtc.so: {}", "cannot open")), "libnvrtc.so: cannot open");
        // The message of the thread that failed first, not of the one that waited for it.
        fn fails() {
            panic!("no driver");
        }
        assert_eq!(message(|| std::thread::spawn(fails).join().unwrap()), "no driver");
        assert_eq!(message(|| std::panic::panic_any(7)), "a panic without a message");
    }
}
