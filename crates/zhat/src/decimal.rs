//! Decimal formatting of numbers, with the ends of intervals rounded outward, and the logarithm of a number
//! given as text.
//!
//! A value is rounded to nearest with ten decimal places; an end of an interval is rounded away from the
//! interval with six to ten places. The grid of an end is contained in the grid of a value, and rounding is
//! monotone, so low ≤ value ≤ high holds for the printed numbers whenever it holds for the exact ones.
//! Numbers below 10⁻⁴ or at least 10¹⁵ are written with an exponent: a small number is never printed as zero.
//!
//! ```
//! use zhat::internal::decimal;
//! assert_eq!(decimal::interval(0.1, 1.0 / 3.0), ("0.100000".into(), "0.333334".into()));
//! assert_eq!(decimal::interval(-1.0 / 3.0, -2f64.powi(-40)), ("-0.333334".into(), "-9.094947e-13".into()));
//! assert_eq!(decimal::number(-0.0), "0");
//! ```

/// Decimal places of a value.
const PLACES: usize = 10;
/// Minimum number of decimal places of an end.
const FEWEST: usize = 6;

fn has_exponent(size: f64) -> bool {
    size != 0.0 && !(1e-4..1e15).contains(&size)
}

fn infinite(x: f64) -> String {
    if x > 0.0 { "∞".into() } else { "-∞".into() }
}

/// A value, rounded to nearest: ten decimal places without trailing zeros.
pub fn number(x: f64) -> String {
    if x.is_infinite() {
        infinite(x)
    } else if x == 0.0 {
        "0".into()
    } else if has_exponent(x.abs()) {
        let text = format!("{x:.PLACES$e}");
        match text.split_once('e') {
            Some((digits, exponent)) => format!("{}e{exponent}", trimmed(digits)),
            None => text,
        }
    } else {
        trimmed(&format!("{x:.PLACES$}"))
    }
}

/// A value known up to `error`: rounded to nearest with the decimal places that the error leaves meaningful, at
/// most ten; `0` if it is zero within the error.
///
/// ```
/// use zhat::internal::decimal;
/// assert_eq!(decimal::resolved(-2.2e-16, 4e-13), "0");
/// assert_eq!(decimal::resolved(1234.56789, 2e-2), "1234.57");
/// assert_eq!(decimal::resolved(30.637911852, 8e-12), "30.637911852");
/// ```
pub fn resolved(x: f64, error: f64) -> String {
    if !(error > 0.0 && error.is_finite() && x.is_finite()) {
        return number(x);
    }
    if x.abs() <= error {
        return "0".into();
    }
    if has_exponent(x.abs()) {
        return number(x);
    }
    let places = (-error.log10()).ceil().clamp(0.0, PLACES as f64) as usize;
    let text = format!("{x:.places$}");
    // A value that rounds to zero within its places keeps its digits.
    if text.bytes().any(|digit| (b'1'..=b'9').contains(&digit)) { trimmed(&text) } else { number(x) }
}

/// A decimal number without trailing zeros after the point.
fn trimmed(text: &str) -> String {
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    }
}

/// A probability with six decimal places; a positive one is never printed as zero.
pub fn probability(p: f64) -> String {
    if p > 0.0 && p < 5e-7 { format!("{p:.1e}") } else { format!("{:.6}", p + 0.0) }
}

/// The largest decimal number with this many places that is not above `x`.
pub fn below(x: f64, places: usize) -> String {
    directed(x, places, false)
}

/// The smallest decimal number with this many places that is not below `x`.
pub fn above(x: f64, places: usize) -> String {
    directed(x, places, true)
}

/// Both ends of an interval, rounded outward by at most 1% of its width unless that needs more than ten
/// places.
pub fn interval(low: f64, high: f64) -> (String, String) {
    let places = places(low, high);
    (below(low, places), above(high, places))
}

/// `1.5 ≤ log Z ≤ 2`, or `log Z ≥ 1.5` and `log Z ≤ 2` if the other end is infinite.
pub fn range(low: f64, name: &str, high: f64) -> String {
    let (below, above) = interval(low, high);
    match (low.is_finite(), high.is_finite()) {
        (true, false) => format!("{name} ≥ {below}"),
        (false, true) => format!("{name} ≤ {above}"),
        _ => format!("{below} ≤ {name} ≤ {above}"),
    }
}

fn places(low: f64, high: f64) -> usize {
    let (width, size) = (high - low, low.abs().max(high.abs()));
    if width <= 0.0 || !width.is_finite() {
        return FEWEST;
    }
    let unit = if has_exponent(size) { size.log10().floor() } else { 0.0 };
    (2.0 - (width.log10() - unit).floor()).clamp(FEWEST as f64, PLACES as f64) as usize
}

/// Rounds towards +∞ or −∞: truncates the exact decimal expansion and, if truncation goes in the wrong
/// direction, adds one in the last place.
fn directed(x: f64, places: usize, up: bool) -> String {
    if !x.is_finite() {
        return infinite(x);
    }
    let (size, sign) = (x.abs(), if x < 0.0 { "-" } else { "" });
    // These digits represent any double exactly in either notation.
    let (text, exponent) = if has_exponent(size) {
        let text = format!("{size:.800e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        (digits.to_owned(), exponent.parse::<i32>().ok())
    } else {
        (format!("{size:.100}"), None)
    };
    let point = text.find('.').unwrap_or(text.len());
    let end = if places == 0 { point } else { (point + 1 + places).min(text.len()) };
    let (kept, rest) = text.split_at(end);
    let cut = rest.bytes().any(|digit| digit.is_ascii_digit() && digit != b'0');
    let kept = if cut && up == (x > 0.0) { next(kept) } else { kept.to_owned() };
    match exponent {
        None => format!("{sign}{kept}"),
        // Carry into a new digit: 9.9… has become 10.0….
        Some(exponent) if kept.starts_with("10") => {
            let zeros = if places == 0 { String::new() } else { format!(".{}", "0".repeat(places)) };
            format!("{sign}1{zeros}e{}", exponent + 1)
        }
        Some(exponent) => format!("{sign}{kept}e{exponent}"),
    }
}

/// The decimal number plus one in the last place.
fn next(digits: &str) -> String {
    let mut carry = true;
    let raised = digits.chars().rev().map(|digit| match digit {
        '9' if carry => '0',
        '0'..='8' if carry => {
            carry = false;
            char::from(digit as u8 + 1)
        }
        other => other,
    });
    let raised: String = raised.collect::<Vec<_>>().into_iter().rev().collect();
    if carry { format!("1{raised}") } else { raised }
}

/// The logarithm of a decimal number ≥ 0, even if a double cannot represent the number; `None` if it is not
/// such a number.
pub(crate) fn parse_log(token: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(token).ok()?;
    // The standard library would also accept `inf` and `nan`.
    if !text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E')) {
        return None;
    }
    let value: f64 = text.parse().ok()?;
    if (1e-300..f64::INFINITY).contains(&value) {
        return Some(value.ln());
    }
    if value < 0.0 {
        return None;
    }
    // Out of range, or nearly: use the leading digits and count the decimal places.
    let (digits, exponent) = text.split_at(text.find(['e', 'E']).unwrap_or(text.len()));
    let exponent: f64 = if exponent.is_empty() { 0.0 } else { exponent[1..].parse().ok()? };
    let (whole, fraction) = digits.trim_start_matches('+').split_once('.').unwrap_or((digits, ""));
    let places = || whole.trim_start_matches('+').bytes().chain(fraction.bytes());
    let Some(first) = places().position(|digit| digit != b'0' && digit != b'-') else {
        return Some(f64::NEG_INFINITY);
    };
    let leading: String = places().skip(first).take(20).map(char::from).collect();
    let point = whole.trim_start_matches('+').len() as f64 - (first + leading.len()) as f64;
    let log = leading.parse::<f64>().ok()?.ln() + (exponent + point) * std::f64::consts::LN_10;
    log.is_finite().then_some(log)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Streams;

    /// The exact value of a decimal text as an integer times 10^−1200, most significant digit first: an
    /// oracle that shares no code with the functions under test.
    fn exact(text: &str) -> (bool, Vec<u8>) {
        let (negative, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (digits, exponent) = text.split_once('e').unwrap_or((text, "0"));
        let exponent: i32 = exponent.parse().unwrap();
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let shift = 1200 + exponent - fraction.len() as i32;
        let mut all: Vec<u8> = format!("{whole}{fraction}").bytes().map(|digit| digit - b'0').collect();
        all.extend(vec![0; usize::try_from(shift).unwrap()]);
        let mut padded = vec![0; 2000 - all.len()];
        padded.extend(all);
        (negative && padded.iter().any(|&digit| digit > 0), padded)
    }

    /// A double from its definition: mantissa · 2^exponent in decimal digits, by doubling and halving.
    fn of_double(x: f64) -> (bool, Vec<u8>) {
        let bits = x.abs().to_bits();
        let (fraction, biased) = (bits & ((1 << 52) - 1), (bits >> 52) as i32);
        let (mut mantissa, mut exponent) =
            if biased == 0 { (fraction, -1074) } else { (fraction | 1 << 52, biased - 1075) };
        let mut digits = vec![0u8; 2000];
        for place in (0..800).rev() {
            digits[place] = (mantissa % 10) as u8;
            mantissa /= 10;
        }
        while exponent > 0 {
            let mut carry = 0;
            for digit in digits.iter_mut().rev() {
                let doubled = 2 * *digit + carry;
                (*digit, carry) = (doubled % 10, doubled / 10);
            }
            exponent -= 1;
        }
        while exponent < 0 {
            let mut rest = 0;
            for digit in &mut digits {
                let all = 10 * rest + *digit;
                (*digit, rest) = (all / 2, all % 2);
            }
            exponent += 1;
        }
        (x < 0.0, digits)
    }

    fn at_most(a: &(bool, Vec<u8>), b: &(bool, Vec<u8>)) -> bool {
        match (a.0, b.0) {
            (false, false) => a.1 <= b.1,
            (true, true) => a.1 >= b.1,
            (negative, _) => negative,
        }
    }

    fn plain(text: &str) {
        let digits = text.trim_start_matches('-').split('e').next().unwrap();
        let zero = digits.chars().all(|c| "0.".contains(c));
        assert!(!(zero && text.starts_with('-')), "{text}");
    }

    #[test]
    fn printed_intervals_contain_the_exact_ones_and_the_printed_value() {
        let mut random = Streams::new(7, "decimal").block(0);
        for i in 0..385 {
            let scale = [1e-300, 1e-12, 1e-5, 1e-4, 1.0, 338.0, 1e6, 1e14, 1e15, 1e200][i % 10];
            let width = [0.0, 1e-16, 1e-13, 1e-10, 1e-7, 1e-3, 1.0][i % 7];
            let middle = (random.uniform() - 0.5) * scale;
            let (mut low, mut high) = (middle - width * scale, middle + width * scale * random.uniform());
            if i % 11 == 0 {
                (low, high) = (low.next_down(), low.next_up());
            }
            if i % 13 == 0 {
                // Decimal numbers; the nearest double lies just above or just below.
                low = (middle * 1e6).round() / 1e6;
                high = high.max(low);
            }
            let (exact_low, exact_high) = (of_double(low), of_double(high));
            for value in [low, high, middle.clamp(low, high)] {
                let (below, above) = interval(low, high);
                [&below, &above, &number(value)].into_iter().for_each(|text| plain(text));
                let (printed_low, printed_high) = (exact(&below), exact(&above));
                assert!(at_most(&printed_low, &exact_low), "{below} > {low:e}");
                assert!(at_most(&exact_high, &printed_high), "{above} < {high:e}");
                assert!(at_most(&printed_low, &exact(&number(value))), "{below} > {}", number(value));
                assert!(at_most(&exact(&number(value)), &printed_high), "{above} < {}", number(value));
                if low < high {
                    assert_ne!(printed_low, printed_high, "{below} and {above} of {low:e} and {high:e}");
                }
                for (x, text) in [(low, &below), (high, &above), (value, &number(value))] {
                    assert_eq!(x == 0.0, text.parse::<f64>().unwrap() == 0.0, "{x:e} is printed as {text}");
                }
            }
        }
    }

    #[test]
    fn carries_and_corner_cases() {
        assert_eq!(above(999_999.999_999_99, 6), "1000000.000000");
        assert_eq!(above(9.999_999_99e-8, 3), "1.000e-7");
        assert_eq!(above(1.4e-13, 0), "2e-13");
        assert_eq!(below(-1.4e-13, 0), "-2e-13");
        assert_eq!(above(9.9e-13, 0), "1e-12");
        assert_eq!(below(0.5, 6), "0.500000");
        assert_eq!(below(-0.0, 2), "0.00");
        assert_eq!(below(f64::NEG_INFINITY, 2), "-∞");
        assert_eq!(number(1e300), "1e300");
        assert_eq!(number(-2.5e-9), "-2.5e-9");
        assert_eq!(number(1500.0), "1500");
        assert_eq!(range(1.0, "log Z", f64::INFINITY), "log Z ≥ 1.000000");
        assert_eq!(range(f64::NEG_INFINITY, "log Z", -2.0), "log Z ≤ -2.000000");
        assert_eq!(range(1.0, "log Z", 2.0), "1.000000 ≤ log Z ≤ 2.000000");
        assert_eq!(
            (probability(1e-9), probability(0.0), probability(0.25)),
            ("1.0e-9".into(), "0.000000".into(), "0.250000".into())
        );
    }
}
