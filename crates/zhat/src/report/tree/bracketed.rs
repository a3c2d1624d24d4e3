//! Constituency trees as nested brackets.

use unicode_width::UnicodeWidthStr;

use super::MOST_INDENTED;
use crate::model::TreeEntry;

/// A symbol or word with the names of treebanks for brackets, and without white space.
fn escaped(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '(' => text += "-LRB-",
            ')' => text += "-RRB-",
            c if c.is_whitespace() => text.push('_'),
            c => text.push(c),
        }
    }
    text
}

/// The position after the last part of each entry.
pub(super) fn ends(entries: &[TreeEntry]) -> Vec<usize> {
    let mut ends = vec![entries.len(); entries.len()];
    let mut open: Vec<usize> = Vec::new();
    for (i, entry) in entries.iter().enumerate() {
        while let Some(done) = open.pop_if(|k| entries[*k].level >= entry.level) {
            ends[done] = i;
        }
        open.push(i);
    }
    ends
}

/// The entry that each is a part of.
pub(super) fn parents(entries: &[TreeEntry]) -> Vec<Option<usize>> {
    let mut open: Vec<usize> = Vec::new();
    let mut parent = |i: usize| {
        while open.pop_if(|k| entries[*k].level >= entries[i].level).is_some() {}
        let above = open.last().copied();
        open.push(i);
        above
    };
    (0..entries.len()).map(&mut parent).collect()
}

/// `(S (NP (D the) (N dog)) (VP barks))`.
pub(super) fn one_line(entries: &[TreeEntry]) -> String {
    let mut text = String::new();
    let mut open: Vec<usize> = Vec::new();
    for (i, entry) in entries.iter().enumerate() {
        while open.pop_if(|level| *level >= entry.level).is_some() {
            text.push(')');
        }
        if i > 0 {
            text.push(' ');
        }
        if !entry.is_word {
            text.push('(');
            open.push(entry.level);
        }
        text += &escaped(&entry.name);
    }
    text.extend(open.iter().map(|_| ')'));
    text
}

/// One part per line, two spaces per level; a part is on one line if it fits into `line` columns.
pub(super) fn indented(entries: &[TreeEntry], line: usize) -> String {
    let ends = ends(entries);
    // The columns of each entry on one line: its name, a space before each part, and brackets.
    let mut widths: Vec<usize> = entries.iter().map(|entry| escaped(&entry.name).width()).collect();
    let above = parents(entries);
    for i in (0..entries.len()).rev() {
        widths[i] += if entries[i].is_word { 0 } else { 2 };
        if let Some(parent) = above[i] {
            widths[parent] += 1 + widths[i];
        }
    }
    let mut text = String::new();
    let mut closing: Vec<usize> = Vec::new();
    let mut i = 0;
    while i < entries.len() {
        let entry = &entries[i];
        while closing.pop_if(|level| *level >= entry.level).is_some() {
            text.push(')');
        }
        if i > 0 {
            text.push('\n');
        }
        text += &"  ".repeat(entry.level.min(MOST_INDENTED));
        // Brackets that close the parts above are not counted, as in most printers of trees.
        if entry.is_word || 2 * entry.level.min(MOST_INDENTED) + widths[i] <= line {
            text += &one_line(&entries[i..ends[i]]);
            i = ends[i];
        } else {
            text.push('(');
            text += &escaped(&entry.name);
            closing.push(entry.level);
            i += 1;
        }
    }
    text.extend(closing.iter().map(|_| ')'));
    text + "\n"
}
