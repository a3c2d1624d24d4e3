//! The reference of commands and options, docs/reference/program.md, is what `zhat man --markdown` prints.

use std::path::Path;

use crate::support::Folder;

/// `ZHAT_BLESS=1` rewrites the page.
#[test]
fn the_page_matches_the_program() {
    let folder = Folder::new("reference");
    let printed = folder.ok(&["man", "--markdown"]);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/program.md");
    if std::env::var_os("ZHAT_BLESS").is_some() {
        std::fs::write(&path, printed).unwrap();
    } else {
        let page = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            page == printed,
            "docs/reference/program.md is not up to date; run this test with ZHAT_BLESS=1"
        );
    }
}

#[test]
fn every_command_and_option_has_a_description() {
    let folder = Folder::new("described");
    let page = folder.ok(&["man", "--markdown"]);
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| ")).collect();
    assert!(rows.len() > 100, "{}", rows.len());
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        assert!(cells.len() >= 2 && !cells[1].is_empty(), "{row}");
        let first = cells[1].chars().next().unwrap_or(' ');
        assert!(
            first.is_uppercase()
                || !first.is_alphabetic()
                || cells[1].starts_with("log Z")
                || cells[0] == "command"
                || cells[0] == "argument",
            "{row}"
        );
    }
    for name in ["logz", "lm train", "generate ising", "man", "completions"] {
        assert!(page.contains(&format!("\n## zhat {name}\n")), "{name}");
    }
}
