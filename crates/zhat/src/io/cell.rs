//! Cells of CSV files.

/// A value as a cell of comma-separated values: quoted where a reader would take it apart, trim it or take it
/// for a missing value.
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
