//! The table of methods in the documentation matches the catalogue. `cargo xtask catalogue` rewrites it.

use std::path::Path;

const START: &str = "<!-- methods: written by `cargo xtask catalogue` -->\n";
const END: &str = "<!-- end of methods -->";

#[test]
fn the_method_table_matches_the_catalogue() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/catalogue.md");
    let readme = std::fs::read_to_string(&path).unwrap();
    let start = readme.find(START).expect("the page has a mark for the table") + START.len();
    let end = start + readme[start..].find(END).expect("the page has a mark for the table's end");
    let table = zhat::catalogue::markdown_table();
    if std::env::var_os("ZHAT_BLESS").is_some() {
        std::fs::write(&path, format!("{}{table}{}", &readme[..start], &readme[end..])).unwrap();
    } else {
        assert_eq!(&readme[start..end], table, "run `cargo xtask catalogue`");
    }
}
