//! Suggestions for misspelt names.

/// Similarity of two names, from 0 to 1, above which one is suggested for the other.
const SIMILAR: f64 = 0.6;
/// Maximum number of names listed when none is similar.
const MOST_LISTED: usize = 40;

/// The known name that is most similar to `word` by edit distance, if one is similar enough. Case is ignored.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    let similarity = |name: &str| strsim::normalized_damerau_levenshtein(&word, &name.to_lowercase());
    let scored = known.into_iter().map(|name| (similarity(name), name)).filter(|(s, _)| *s > SIMILAR);
    scored.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, name)| name)
}

/// The end of a message about an unknown name: the most similar known name, or all known names.
///
/// ```
/// use zhat::internal::suggest;
/// assert_eq!(suggest::hint("sampels", &["samples", "width"]), "; did you mean `samples`?");
/// assert_eq!(suggest::hint("xyz", &["samples", "width"]), "; expected one of: samples, width");
/// ```
pub fn hint(word: &str, known: &[&str]) -> String {
    match nearest(word, known.iter().copied()) {
        Some(name) => format!("; did you mean `{name}`?"),
        None if known.is_empty() || known.len() > MOST_LISTED => String::new(),
        None => format!("; expected one of: {}", known.join(", ")),
    }
}
