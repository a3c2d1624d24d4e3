//! Cells of CSV files.

/// Formats a value as a CSV cell. It is quoted if a reader would otherwise split it, trim it or take it for a
/// missing value.
///
/// ```
/// use zhat::io::table::cell;
/// assert_eq!([cell("a"), cell("a,b"), cell("NA"), cell(" x")], ["a", "\"a,b\"", "\"NA\"", "\" x\""]);
/// ```
pub fn cell(text: &str) -> std::borrow::Cow<'_, str> {
    let marker = matches!(text, "?" | "NA" | "NaN" | "nan" | "null");
    if marker || text.trim_ascii().len() < text.len() || text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\"")).into()
    } else {
        text.into()
    }
}
