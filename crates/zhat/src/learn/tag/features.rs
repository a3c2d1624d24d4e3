//! Features of words for taggers: Appendix B of the reference.
//!
//! A feature is a short text such as `w[0]=dogs`. The offset m of the word from the tag is in brackets.
//!
//! | feature | text | offsets |
//! |---|---|---|
//! | the word | `w[m]=dogs` | all |
//! | prefixes and suffixes of up to four letters | `p2[m]=do`, `s3[m]=ogs` | all |
//! | all letters are capitals, and there is one | `upper` | 0 |
//! | the first letter is a capital | `capital` | 0 |
//! | ends with s | `s` | 0 |
//! | first letter a capital and ends with s | `capital+s` | 0 |
//! | all letters capitals and ends with S | `upper+S` | 0 |
//! | has a digit; only digits | `digit`, `digits` | 0 |
//! | has a hyphen | `hyphen` | 0 |
//!
//! The word beyond either end of a sentence is [`BOUNDARY`], whose only feature is `w[m]=` and its text.
//!
//! Reference: Y. Jernite, A. M. Rush, D. Sontag, *A fast variational approach for learning Markov random field
//! language models*, ICML 2015, Appendix B.

use std::fmt::Write;

/// The word before the first and after the last word of a sentence.
pub const BOUNDARY: &str = "<S>";

/// Maximum length of prefixes and suffixes, in letters.
const AFFIX: usize = 4;

/// The features of a word at an offset from the tag.
///
/// ```
/// use zhat::learn::tag::features::appendix_b;
/// let expected = ["w[0]=Ants", "p1[0]=A", "s1[0]=s", "p2[0]=An", "s2[0]=ts", "p3[0]=Ant", "s3[0]=nts",
///     "p4[0]=Ants", "s4[0]=Ants", "capital", "s", "capital+s"];
/// assert_eq!(appendix_b("Ants", 0), expected);
/// assert_eq!(appendix_b("an", -1), ["w[-1]=an", "p1[-1]=a", "s1[-1]=n", "p2[-1]=an", "s2[-1]=an"]);
/// ```
pub fn appendix_b(word: &str, offset: i32) -> Vec<String> {
    let mut features = Vec::new();
    each(word, offset, &mut String::new(), &mut |feature| features.push(feature.to_owned()));
    features
}

/// Calls `found` with every feature of [`appendix_b`]; `scratch` is memory for their texts.
pub fn each(word: &str, offset: i32, scratch: &mut String, found: &mut dyn FnMut(&str)) {
    let mut put = |name: &str, length: &str, text: &str| {
        scratch.clear();
        // Writing to a string does not fail.
        let _ = write!(scratch, "{name}{length}[{offset}]={text}");
        found(scratch);
    };
    put("w", "", word);
    if word == BOUNDARY {
        return;
    }
    let mut from_end = word.char_indices().rev();
    let mut from_start = word.char_indices().skip(1);
    for length in ["1", "2", "3", "4"].into_iter().take(AFFIX) {
        let Some((start, _)) = from_end.next() else { break };
        let next = from_start.next();
        put("p", length, &word[..next.map_or(word.len(), |(end, _)| end)]);
        put("s", length, &word[start..]);
    }
    if offset == 0 {
        let shape = Shape::of(word);
        let ends = word.ends_with('s');
        let morphology = [
            ("upper", shape.upper),
            ("capital", shape.capital),
            ("s", ends),
            ("capital+s", shape.capital && ends),
            ("upper+S", shape.upper && word.ends_with('S')),
            ("digit", shape.digit),
            ("digits", shape.digits),
            ("hyphen", word.contains('-')),
        ];
        morphology.into_iter().filter(|(_, holds)| *holds).for_each(|(name, _)| found(name));
    }
}

/// The attribute of a token whose neighbour at this distance is beyond the sentence.
///
/// ```
/// assert_eq!(zhat::learn::tag::features::end(-1), "tag[-1]=<S>");
/// ```
pub fn end(distance: i32) -> String {
    format!("tag[{distance}]={BOUNDARY}")
}

/// Whether a feature is the indicator of a word, which rare words lose.
pub fn is_word_indicator(feature: &str) -> bool {
    feature.starts_with("w[")
}

struct Shape {
    upper: bool,
    capital: bool,
    digit: bool,
    digits: bool,
}

impl Shape {
    fn of(word: &str) -> Self {
        let letter = word.chars().any(char::is_alphabetic);
        let digit = word.chars().any(char::is_numeric);
        Shape {
            upper: letter && word.chars().all(|c| !c.is_alphabetic() || c.is_uppercase()),
            capital: word.chars().next().is_some_and(char::is_uppercase),
            digit,
            digits: digit && word.chars().all(char::is_numeric),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn morphology_as_in_the_appendix() {
        let shape = |word: &str| {
            let all = appendix_b(word, 0);
            all.into_iter().filter(|feature| !feature.contains('[')).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(shape("US"), "upper capital upper+S");
        assert_eq!(shape("U.S."), "upper capital");
        assert_eq!(shape("boys"), "s");
        assert_eq!(shape("1987"), "digit digits");
        assert_eq!(shape("F-16s"), "capital s capital+s digit hyphen");
        assert_eq!((shape(""), shape("x")), (String::new(), String::new()));
        assert_eq!(shape("\u{c9}"), "upper capital");
    }

    #[test]
    fn affixes_are_letters_not_bytes() {
        let features = appendix_b("\u{e9}t\u{e9}", 1);
        let expected = ["w[1]=été", "p1[1]=é", "s1[1]=é", "p2[1]=ét", "s2[1]=té", "p3[1]=été", "s3[1]=été"];
        assert_eq!(features, expected);
        assert_eq!(appendix_b(BOUNDARY, -1), ["w[-1]=<S>"]);
        assert_eq!(appendix_b("", 2), ["w[2]="]);
    }
}
