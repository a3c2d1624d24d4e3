//! Drawings of trees as SVG.

use std::fmt::Write as _;

use unicode_width::UnicodeWidthChar;

use super::bracketed::{ends, parents};
use crate::model::{NamedTree, TreeEntry};

/// The sizes of letters of words and of labels, and the empty space around a drawing.
const FONT: f64 = 15.0;
const LABEL: f64 = 12.0;
const MARGIN: f64 = 14.0;
/// The distance between the levels of a constituency tree, and between the nested arcs of a dependency tree.
const LEVEL: f64 = 46.0;
const ARC: f64 = 26.0;
/// The space between words.
const GAP: f64 = 14.0;

/// A drawing, in pixels.
#[derive(Clone, Debug, PartialEq)]
pub struct Drawing {
    width: f64,
    height: f64,
    /// SVG elements.
    elements: String,
}

/// The width of a text of this size. The font of a reader is not known, so letters have the width that they have
/// in a wide font; accents have none.
fn width(text: &str, size: f64) -> f64 {
    let of = |c: char| match c {
        'i' | 'j' | 'l' | 'I' | '\'' | '.' | ',' | ':' | ';' | '|' => 0.38,
        'f' | 't' | 'r' | '-' | '/' | '(' | ')' | '[' | ']' | '!' | ' ' => 0.45,
        'm' | 'M' | 'W' | '%' | '@' => 1.02,
        'w' | '+' | '<' | '=' | '>' | '~' | '#' | '&' | '^' => 0.86,
        c if c.is_ascii_uppercase() => 0.80,
        c if c.is_ascii() => 0.65,
        c => 0.8 * c.width().unwrap_or(1) as f64,
    };
    size * text.chars().map(of).sum::<f64>()
}

/// A text for XML; characters that XML does not allow are replaced.
fn escaped(text: &str) -> String {
    let mut found = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => found += "&amp;",
            '<' => found += "&lt;",
            '>' => found += "&gt;",
            '"' => found += "&quot;",
            c if c.is_control() || ('\u{fffe}'..='\u{ffff}').contains(&c) => found.push('\u{fffd}'),
            c => found.push(c),
        }
    }
    found
}

impl Drawing {
    /// The drawing of a tree.
    pub fn of(tree: &NamedTree) -> Self {
        match tree {
            NamedTree::Constituency(entries) => constituency(entries),
            NamedTree::Dependency { words, heads, labels } => dependency(words, heads, labels),
        }
    }

    /// One drawing below the other.
    pub fn stacked(drawings: &[Drawing]) -> Self {
        let mut all = Drawing { width: 0.0, height: 0.0, elements: String::new() };
        for drawing in drawings {
            let _ = write!(
                all.elements,
                "<g transform=\"translate(0 {:.1})\">\n{}</g>\n",
                all.height, drawing.elements
            );
            all.width = all.width.max(drawing.width);
            all.height += drawing.height;
        }
        all
    }

    /// An SVG document.
    pub fn svg(&self) -> String {
        let Drawing { width, height, elements } = self;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
             viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"sans-serif\" font-size=\"{FONT}\" \
             text-anchor=\"middle\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{elements}</svg>\n"
        )
    }

    fn text(&mut self, x: f64, y: f64, text: &str, attributes: &str) {
        let _ =
            writeln!(self.elements, "<text x=\"{x:.1}\" y=\"{y:.1}\"{attributes}>{}</text>", escaped(text));
    }

    /// A label on a white ground, which hides the lines below it.
    fn label(&mut self, x: f64, y: f64, text: &str) {
        let size = format!(" font-size=\"{LABEL}\"");
        let ground = format!("{size} fill=\"white\" stroke=\"white\" stroke-width=\"4\"");
        self.text(x, y, text, &format!("{ground} stroke-linejoin=\"round\" aria-hidden=\"true\""));
        self.text(x, y, text, &format!("{size} fill=\"#1f4e79\""));
    }
}

/// Symbols above the middle of their parts, and all words in a row at the bottom.
fn constituency(entries: &[TreeEntry]) -> Drawing {
    let ends = ends(entries);
    let is_leaf = |i: usize| ends[i] == i + 1;
    // The leaves of entry i are columns first[i] to first[ends[i]] − 1.
    let mut first = Vec::with_capacity(entries.len() + 1);
    let mut leaves = 0;
    for i in 0..entries.len() {
        first.push(leaves);
        leaves += usize::from(is_leaf(i));
    }
    first.push(leaves);
    let mut columns = vec![0.0f64; leaves];
    for (i, entry) in entries.iter().enumerate().rev() {
        let own = first[i]..first[ends[i]];
        let missing = width(&entry.name, FONT) + GAP - columns[own.clone()].iter().sum::<f64>();
        // A long name widens its columns evenly.
        let share = missing.max(0.0) / own.len().max(1) as f64;
        columns[own].iter_mut().for_each(|column| *column += share);
    }
    let mut left = vec![MARGIN];
    for column in &columns {
        left.push(left[left.len() - 1] + column);
    }
    let lowest = entries.iter().map(|entry| entry.level).max().unwrap_or(0);
    let y = |i: usize| {
        let level = if entries[i].is_word { lowest } else { entries[i].level };
        MARGIN + FONT + LEVEL * level as f64
    };
    let mut x: Vec<f64> = vec![0.0; entries.len()];
    let parents = parents(entries);
    // The first and the last part of each entry.
    let mut parts: Vec<Option<(f64, f64)>> = vec![None; entries.len()];
    for i in (0..entries.len()).rev() {
        let (start, end) = (left[first[i]], left[first[ends[i]]]);
        let middle = parts[i].map_or(start.midpoint(end), |(low, high)| low.midpoint(high));
        // A long name stays within its columns.
        let half = (width(&entries[i].name, FONT) + GAP) / 2.0;
        x[i] = middle.max(start + half).min(end - half);
        if let Some(parent) = parents[i] {
            parts[parent] = Some((x[i], parts[parent].map_or(x[i], |(_, high)| high)));
        }
    }
    let mut drawing = Drawing {
        width: left[leaves] + MARGIN,
        height: 2.0 * MARGIN + FONT + LEVEL * lowest as f64 + 4.0,
        elements: String::new(),
    };
    for (i, entry) in entries.iter().enumerate() {
        if let Some(parent) = parents[i] {
            // The line to a word bends at the next level, so that it stays within its column.
            let bend = y(parent) + LEVEL - FONT;
            let _ = writeln!(
                drawing.elements,
                "<path d=\"M{:.1} {:.1} L{:.1} {bend:.1} V{:.1}\" fill=\"none\" stroke=\"#888\"/>",
                x[parent],
                y(parent) + 5.0,
                x[i],
                y(i) - FONT
            );
        }
        let style = if entry.is_word { " font-style=\"italic\"" } else { " fill=\"#1f4e79\"" };
        drawing.text(x[i], y(i), &entry.name, style);
    }
    drawing
}

/// Words in a row, and an arc above them from every head to its dependent.
fn dependency(words: &[String], heads: &[usize], labels: &[String]) -> Drawing {
    let mut x = Vec::with_capacity(words.len());
    let mut end = MARGIN;
    for (i, word) in words.iter().enumerate() {
        // The label of a root has a word before it.
        let start = if heads.get(i) == Some(&0) { width("root ", LABEL) } else { 0.0 };
        let label = labels.get(i).map_or(0.0, |label| start + width(label, LABEL));
        let column = width(word, FONT).max(label) + 2.0 * GAP;
        x.push(end + column / 2.0);
        end += column;
    }
    // An arc lies above all arcs between its ends.
    let arcs: Vec<(usize, usize, usize)> = heads
        .iter()
        .enumerate()
        .filter(|(word, head)| **head > 0 && **head <= words.len() && **head != word + 1)
        .map(|(word, &head)| (word.min(head - 1), word.max(head - 1), word))
        .collect();
    let mut order: Vec<usize> = (0..arcs.len()).collect();
    order.sort_by_key(|&a| arcs[a].1 - arcs[a].0);
    let mut heights = vec![0usize; arcs.len()];
    for (n, &a) in order.iter().enumerate() {
        let (low, high, _) = arcs[a];
        let inside = |b: &&usize| low <= arcs[**b].0 && arcs[**b].1 <= high;
        heights[a] = 1 + order[..n].iter().filter(inside).map(|&b| heights[b]).max().unwrap_or(0);
    }
    let top = heights.iter().copied().max().unwrap_or(0) as f64 * ARC;
    let base = MARGIN + FONT + top + ARC;
    let mut drawing =
        Drawing { width: end + MARGIN, height: base + 2.0 * FONT + MARGIN, elements: String::new() };
    let arrow = |x: f64| {
        let (y, high) = (base, base - 7.0);
        format!(
            "<path d=\"M{:.1} {high:.1} L{:.1} {high:.1} L{x:.1} {y:.1} Z\" fill=\"#444\"/>\n",
            x - 3.5,
            x + 3.5
        )
    };
    // Labels come last, so that no arc crosses them.
    let mut shown: Vec<(f64, f64, String)> = Vec::new();
    for (&(low, high, word), &height) in arcs.iter().zip(&heights) {
        let peak = height as f64 * ARC;
        // A cubic curve reaches three quarters of the height of its control points.
        let control = base - peak / 0.75;
        // The ends at a word are kept apart: an arc leaves its head on the side of its dependent.
        let shift = if word == high { 4.0 } else { -4.0 };
        let (from, to) = if word == high { (x[low], x[high]) } else { (x[high], x[low]) };
        let (from, to) = (from + shift, to - shift / 4.0);
        let _ = writeln!(
            drawing.elements,
            "<path d=\"M{from:.1} {base:.1} C{from:.1} {control:.1} {to:.1} {control:.1} {to:.1} {base:.1}\" \
             fill=\"none\" stroke=\"#444\"/>"
        );
        drawing.elements += &arrow(to);
        if let Some(label) = labels.get(word) {
            shown.push((from.midpoint(to), base - peak - 3.0, label.clone()));
        }
    }
    for (word, _) in heads.iter().enumerate().filter(|(_, head)| **head == 0) {
        let (at, from) = (x[word], MARGIN + FONT);
        let _ = writeln!(
            drawing.elements,
            "<line x1=\"{at:.1}\" y1=\"{from:.1}\" x2=\"{at:.1}\" y2=\"{base:.1}\" stroke=\"#444\"/>"
        );
        drawing.elements += &arrow(at);
        let label = labels.get(word).map_or_else(|| "root".to_owned(), |label| format!("root {label}"));
        shown.push((at, from - 3.0, label));
    }
    for (x, y, label) in shown {
        drawing.label(x, y, &label);
    }
    for (word, &at) in words.iter().zip(&x) {
        drawing.text(at, base + FONT + 3.0, word, "");
    }
    drawing
}
