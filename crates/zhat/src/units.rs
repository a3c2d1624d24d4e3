//! Formatting and parsing of bytes and seconds.

use std::time::Duration;

/// `2.8 GiB`, `17 B`; a power of two for astronomical numbers.
pub fn bytes(bytes: f64) -> String {
    const NAMES: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if !bytes.is_finite() {
        return "> 2^64 B".into();
    }
    let mut value = bytes;
    for name in NAMES {
        if value < 1000.0 {
            return if name == "B" { format!("{value:.0} B") } else { format!("{value:.1} {name}") };
        }
        value /= 1024.0;
    }
    format!("2^{:.0} B", bytes.log2())
}

/// `1 variable`, `3 variables`.
pub fn count(count: usize, name: &str) -> String {
    format!("{count} {name}{}", if count == 1 { "" } else { "s" })
}

/// `12 ms`, `3.4 s`, `5 min`, `2.0 h`, `12 days`, `10^9 years`.
pub fn seconds(seconds: f64) -> String {
    const YEAR: f64 = 365.25 * 86_400.0;
    match seconds {
        s if !s.is_finite() => "out of reach".into(),
        s if s < 1e-3 => "< 1 ms".into(),
        s if s < 1.0 => format!("{:.0} ms", s * 1e3),
        s if s < 100.0 => format!("{s:.1} s"),
        s if s < 7_200.0 => format!("{:.0} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.1} h", s / 3600.0),
        s if s < YEAR => format!("{:.0} days", s / 86_400.0),
        s if s < 1e4 * YEAR => format!("{:.0} years", s / YEAR),
        s => format!("10^{:.0} years", (s / YEAR).log10()),
    }
}

/// Like `seconds`, but with digits for any duration: `250 µs`, `0 s`.
pub fn precise_seconds(seconds: f64) -> String {
    match seconds {
        s if s <= 0.0 => "0 s".into(),
        s if s < 1e-6 => "less than 1 µs".into(),
        s if s < 1e-3 => format!("{:.0} µs", s * 1e6),
        s => self::seconds(s),
    }
}

/// Parses `4GiB`, `500 MB`, `1e9`; units with an `i` are powers of 1024, others of 1000.
///
/// ```
/// assert_eq!(zhat::internal::units::parse_bytes("4GiB"), Some(4 << 30));
/// assert_eq!(zhat::internal::units::parse_bytes("1.5kB"), Some(1500));
/// assert_eq!(zhat::internal::units::parse_bytes("much"), None);
/// ```
pub fn parse_bytes(text: &str) -> Option<u64> {
    let (number, unit) = split_unit(text)?;
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kib" => 1024.0,
        "m" | "mib" => 1024f64.powi(2),
        "g" | "gib" => 1024f64.powi(3),
        "t" | "tib" => 1024f64.powi(4),
        "kb" => 1e3,
        "mb" => 1e6,
        "gb" => 1e9,
        "tb" => 1e12,
        _ => return None,
    };
    let bytes = number * factor;
    (bytes >= 0.0 && bytes < u64::MAX as f64).then_some(bytes as u64)
}

/// Parses `60s`, `2.5min`, `1h`, `300ms`, or a plain number of seconds.
///
/// ```
/// # use std::time::Duration;
/// assert_eq!(zhat::internal::units::parse_duration("1.5min"), Some(Duration::from_secs(90)));
/// ```
pub fn parse_duration(text: &str) -> Option<Duration> {
    let (number, unit) = split_unit(text)?;
    let factor = match unit {
        "" | "s" | "sec" => 1.0,
        "ms" => 1e-3,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(number * factor).ok()
}

fn split_unit(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let at = text.find(|c: char| c.is_ascii_alphabetic() && !matches!(c, 'e' | 'E')).unwrap_or(text.len());
    Some((text[..at].trim().parse().ok().filter(|x: &f64| x.is_finite())?, text[at..].trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_read_well() {
        assert_eq!(bytes(17.0), "17 B");
        assert_eq!(bytes(3e9), "2.8 GiB");
        assert_eq!(bytes(2f64.powi(90)), "2^90 B");
        assert_eq!(seconds(0.012), "12 ms");
        assert_eq!(seconds(1e4), "2.8 h");
        assert_eq!(
            [0.0, 1e-7, 2.5e-4, 0.012].map(precise_seconds),
            ["0 s", "less than 1 µs", "250 µs", "12 ms"]
        );
        assert_eq!(seconds(1e30), "10^23 years");
        assert_eq!(
            (seconds(f64::INFINITY), bytes(f64::INFINITY)),
            ("out of reach".into(), "> 2^64 B".into())
        );
    }
}
