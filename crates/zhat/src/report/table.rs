//! Plain tables and aligned lines.

use unicode_width::UnicodeWidthStr;

/// A table with a header and two spaces between columns; columns from `right_from` on are right-aligned.
pub fn table(header: &[&str], rows: &[Vec<String>], right_from: usize) -> String {
    let mut widths: Vec<usize> = header.iter().map(|cell| cell.width()).collect();
    for row in rows {
        widths.iter_mut().zip(row).for_each(|(width, cell)| *width = cell.width().max(*width));
    }
    let mut text = String::new();
    let mut line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut line = String::new();
        for (i, (cell, width)) in cells.zip(&widths).enumerate() {
            let blanks = " ".repeat(width - cell.width());
            if i > 0 {
                line += "  ";
            }
            line += &if i >= right_from { blanks + cell } else { cell.to_owned() + &blanks };
        }
        text += line.trim_end();
        text.push('\n');
    };
    line(&mut header.iter().copied());
    for row in rows {
        line(&mut row.iter().map(String::as_str));
    }
    text
}

/// Lines of `label  content` with the contents aligned.
pub fn facts<L: AsRef<str>>(facts: &[(L, String)]) -> String {
    let width = facts.iter().map(|(label, _)| label.as_ref().width()).max().unwrap_or(0);
    let line = |(label, content): &(L, String)| {
        let blanks = " ".repeat(width - label.as_ref().width());
        format!("{}{blanks}  {content}\n", label.as_ref())
    };
    facts.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_by_what_is_seen() {
        let rows = [vec!["é".into(), "10".into()], vec!["变量".into(), "9".into()]];
        assert_eq!(table(&["a", "n"], &rows, 1), "a      n\né     10\n变量   9\n");
        assert_eq!(facts(&[("a", "1".into()), ("long", "2".into())]), "a     1\nlong  2\n");
    }
}
