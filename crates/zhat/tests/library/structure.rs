//! The library's modules form layers: a module may use itself and modules of lower layers, never modules of
//! its own layer or above. The layers are those of ARCHITECTURE.md.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// From bottom to top; modules in one layer do not use each other.
const LAYERS: [&[&str]; 13] = [
    &["error", "units", "decimal", "platform", "suggest", "values"],
    &["answer", "cache", "numeric", "options", "random"],
    &["run"],
    &["tensor", "optimize"],
    &["query"],
    &["model"],
    &["io"],
    &["report"],
    &["method"],
    &["catalogue"],
    &["learn"],
    &["internal"],
    &["lib"],
];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
}

/// Top-level modules named in a file's code, ignoring tests and comments.
fn named(text: &str) -> BTreeSet<String> {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let mut names = BTreeSet::new();
    for line in lines {
        let named = line.match_indices("crate::").filter(|(at, _)| !line[..*at].ends_with('$'));
        for (_, rest) in named.map(|(at, word)| line.split_at(at + word.len())) {
            let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            // Types at the root are re-exports from lower layers.
            if name.starts_with(char::is_lowercase) {
                names.insert(name);
            }
        }
    }
    names
}

#[test]
fn dependencies_point_one_way() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let layer: BTreeMap<&str, usize> =
        LAYERS.iter().enumerate().flat_map(|(i, names)| names.iter().map(move |name| (*name, i))).collect();
    let mut files = Vec::new();
    sources(&root, &mut files);
    assert!(files.len() > 200, "only {} files were found", files.len());
    let mut wrong = Vec::new();
    for file in files {
        let path = file.strip_prefix(&root).unwrap();
        let first = path.components().next().unwrap().as_os_str().to_string_lossy().into_owned();
        let own = first.trim_end_matches(".rs");
        // The crate root names every module, and test files may use anything.
        if own == "lib" || path.file_stem().is_some_and(|stem| stem == "tests") {
            continue;
        }
        let level = *layer.get(own).unwrap_or_else(|| panic!("the module `{own}` has no layer"));
        for used in named(&std::fs::read_to_string(&file).unwrap()) {
            let allowed = used == own || layer.get(used.as_str()).is_some_and(|other| *other < level);
            if !allowed && layer.contains_key(used.as_str()) {
                wrong.push(format!("{} uses {used}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "dependencies against the layers:\n{}", wrong.join("\n"));
}
