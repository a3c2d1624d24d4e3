//! Dependency trees as text.

use std::fmt::Write as _;

use super::MOST_INDENTED;

/// Every word on a line below its head, two spaces further, with the label of its arc.
pub(super) fn indented(words: &[String], heads: &[usize], labels: &[String]) -> String {
    let mut dependents: Vec<Vec<usize>> = vec![Vec::new(); heads.len() + 1];
    for (word, &head) in heads.iter().enumerate().rev() {
        if let Some(list) = dependents.get_mut(head) {
            list.push(word);
        }
    }
    let mut text = String::new();
    let mut open: Vec<(usize, usize)> = dependents[0].iter().map(|&word| (word, 0)).collect();
    while let Some((word, level)) = open.pop() {
        let label = labels.get(word).map_or_else(String::new, |label| format!(" [{label}]"));
        let _ = writeln!(text, "{}{}{label}", "  ".repeat(level.min(MOST_INDENTED)), words[word]);
        open.extend(dependents[word + 1].iter().map(|&dependent| (dependent, level + 1)));
    }
    text
}

/// Ten columns per word: its number, its form, six that are not used or given here, head and label; then an
/// empty line.
pub(super) fn conllu(words: &[String], heads: &[usize], labels: &[String]) -> String {
    let mut text = String::new();
    for (i, (word, head)) in words.iter().zip(heads).enumerate() {
        let form: String = word.chars().map(|c| if c.is_whitespace() { '_' } else { c }).collect();
        let label = labels.get(i).map_or("_", String::as_str);
        let _ = writeln!(text, "{}\t{form}\t_\t_\t_\t_\t{head}\t{label}\t_\t_", i + 1);
    }
    text + "\n"
}
