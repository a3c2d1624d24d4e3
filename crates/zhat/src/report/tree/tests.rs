//! Tests of printed trees.

use super::*;
use crate::model::TreeEntry;

/// Reads a tree in brackets; words have no brackets around them.
fn read(text: &str) -> NamedTree {
    let spaced = text.replace('(', " ( ").replace(')', " ) ");
    let (mut entries, mut level, mut opened) = (Vec::new(), 0, false);
    for token in spaced.split_whitespace() {
        match token {
            "(" => opened = true,
            ")" => level -= 1,
            name => {
                entries.push(TreeEntry { level, name: name.into(), is_word: !opened });
                level += usize::from(opened);
                opened = false;
            }
        }
    }
    NamedTree::Constituency(entries)
}

const SENTENCE: &str =
    "(S (NP (D the) (N dog)) (VP (V saw) (NP (NP a cat) (PP (P in) (NP (D the) (N park))))) .)";

#[test]
fn brackets_are_written_and_read_back() {
    for text in ["(S a)", "(S (A (B a)) b (C c))", SENTENCE] {
        assert_eq!(show(&read(text), TreeForm::Bracketed).unwrap(), text);
    }
    let entry = |level, name: &str, is_word| TreeEntry { level, name: name.into(), is_word };
    let odd = NamedTree::Constituency(vec![
        entry(0, "X", false),
        entry(1, "(a)", true),
        entry(1, "New York", true),
    ]);
    assert_eq!(show(&odd, TreeForm::Bracketed).unwrap(), "(X -LRB-a-RRB- New_York)");
}

#[test]
fn short_parts_are_on_one_line() {
    assert_eq!(show(&read("(S (A a) b)"), TreeForm::Indented).unwrap(), "(S (A a) b)\n");
    let expected = "\
(S
  (NP (D the) (N dog))
  (VP (V saw) (NP (NP a cat) (PP (P in) (NP (D the) (N park)))))
  .)
";
    assert_eq!(show(&read(SENTENCE), TreeForm::Indented).unwrap(), expected);
    // Joined again, it is the tree on one line.
    let NamedTree::Constituency(entries) = read(SENTENCE) else { panic!() };
    for line in [1, 10, 20, 40, 200] {
        let text = bracketed::indented(&entries, line);
        assert_eq!(text.split_whitespace().collect::<Vec<_>>().join(" "), SENTENCE);
    }
}

#[test]
fn very_deep_trees_are_printed() {
    let levels = 20_000;
    let mut entries: Vec<TreeEntry> =
        (0..levels).map(|level| TreeEntry { level, name: "X".into(), is_word: false }).collect();
    entries.push(TreeEntry { level: levels, name: "a".into(), is_word: true });
    let tree = NamedTree::Constituency(entries);
    assert_eq!(show(&tree, TreeForm::Bracketed).unwrap().len(), 4 * levels + 1);
    assert!(show(&tree, TreeForm::Svg).unwrap().ends_with("</svg>\n"));
}

fn dependencies(heads: &[usize], labels: &[&str]) -> NamedTree {
    NamedTree::Dependency {
        words: (0..heads.len()).map(|i| format!("w{i}")).collect(),
        heads: heads.to_vec(),
        labels: labels.iter().map(|&label| label.to_owned()).collect(),
    }
}

#[test]
fn dependency_trees_have_ten_columns() {
    let tree = dependencies(&[2, 0, 4, 2], &["1", "0", "2", "1"]);
    let text = show(&tree, TreeForm::Conllu).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "1\tw0\t_\t_\t_\t_\t2\t1\t_\t_");
    assert_eq!((lines.len(), lines[4]), (5, ""));
    assert!(lines[..4].iter().all(|line| line.split('\t').count() == 10));
    assert_eq!(show(&tree, TreeForm::Indented).unwrap(), "w1 [0]\n  w0 [1]\n  w3 [1]\n    w2 [2]\n");
    assert_eq!(show(&tree, TreeForm::Bracketed), None);
    assert!(
        show(&dependencies(&[0], &[]), TreeForm::Conllu).unwrap().starts_with("1\tw0\t_\t_\t_\t_\t0\t_\t_")
    );
}

/// The names of the open elements are closed in order, and attributes are quoted.
fn well_formed(svg: &str) -> usize {
    let (mut open, mut elements, mut rest) = (Vec::new(), 0, svg);
    while let Some(at) = rest.find('<') {
        assert!(
            !rest[..at].contains('>')
                && !rest[..at]
                    .replace("&amp;", "")
                    .replace("&lt;", "")
                    .replace("&gt;", "")
                    .replace("&quot;", "")
                    .contains('&')
        );
        let end = at + rest[at..].find('>').unwrap();
        let tag = &rest[at + 1..end];
        assert!(tag.matches('"').count().is_multiple_of(2), "{tag}");
        let name = tag.trim_matches('/').split_whitespace().next().unwrap();
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name));
        } else {
            elements += 1;
            if !tag.ends_with('/') {
                open.push(name);
            }
        }
        rest = &rest[end + 1..];
    }
    assert!(open.is_empty() && rest.trim().is_empty());
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    elements
}

#[test]
fn drawings_are_well_formed() {
    // Nested elements, a white rectangle, a text for each entry and a line for each but the first.
    let NamedTree::Constituency(entries) = read(SENTENCE) else { panic!() };
    let count = entries.len();
    assert_eq!(well_formed(&show(&read(SENTENCE), TreeForm::Svg).unwrap()), 2 + count + count - 1);
    let odd = vec![
        TreeEntry { level: 0, name: "<A&B>\"".into(), is_word: false },
        TreeEntry { level: 1, name: "a\u{1}".into(), is_word: true },
    ];
    well_formed(&show(&NamedTree::Constituency(odd), TreeForm::Svg).unwrap());
    for heads in [vec![0], vec![2, 0, 4, 2], vec![3, 4, 0, 3], vec![0, 0, 1], vec![2, 1], vec![1, 9]] {
        well_formed(&show(&dependencies(&heads, &[]), TreeForm::Svg).unwrap());
        let labels: Vec<&str> = heads.iter().map(|_| "7").collect();
        let tree = dependencies(&heads, &labels);
        let two = Drawing::stacked(&[Drawing::of(&tree), Drawing::of(&read("(S a b)"))]);
        well_formed(&two.svg());
    }
}

/// The width of a name in DejaVu Sans, which is wide, at 15 pixels; at most, for most letters.
fn drawn_width(name: &str) -> f64 {
    let of = |c: char| match c {
        'W' => 0.989,
        'M' => 0.863,
        'm' => 0.974,
        'w' => 0.818,
        'i' | 'l' => 0.278,
        c if c.is_uppercase() => 0.787,
        _ => 0.635,
    };
    15.0 * name.chars().map(of).sum::<f64>()
}

/// Names in the same row of a drawing do not overlap, and are not cut at the right.
#[test]
fn drawn_names_are_apart() {
    let long = "(Sentence (A (averylongsymbol a) b) (B (C c) (anotherlongsymbol (D d) (E e))) .)";
    let wide = "(S (A i) (B WWWWWWMMMM) (C l) (D mmmwwwmmm))";
    let beside =
        "(S (averyverylongsymbolname (A i) (B l) WWWWWWMMMM) (anothersymbolname (A WWWWWWMMMM) i l))";
    for text in [SENTENCE, long, wide, beside] {
        let svg = show(&read(text), TreeForm::Svg).unwrap();
        let attribute = |line: &str, name: &str| -> f64 {
            let (_, rest) = line.split_once(&format!("{name}=\"")).unwrap();
            rest.split('"').next().unwrap().parse().unwrap()
        };
        let mut rows: Vec<(f64, f64, f64)> = Vec::new();
        for line in svg.lines().filter(|line| line.starts_with("<text")) {
            let name = line.split('>').nth(1).unwrap().split('<').next().unwrap();
            let (x, half) = (attribute(line, " x"), drawn_width(name) / 2.0);
            assert!(x - half > 0.0 && x + half < attribute(&svg, " width"), "{text}: {name}");
            rows.push((attribute(line, " y"), x - half, x + half));
        }
        rows.sort_by(|a, b| a.partial_cmp(b).unwrap());
        for pair in rows.windows(2).filter(|pair| pair[0].0 == pair[1].0) {
            assert!(pair[0].2 + 2.0 < pair[1].1, "{text}: {pair:?}");
        }
    }
}

#[test]
fn forms_are_checked_before_a_query() {
    assert_eq!(TreeForm::named("conllu").unwrap(), TreeForm::Conllu);
    assert!(TreeForm::named("conlu").unwrap_err().to_string().contains("`conllu`"));
    assert!(TreeForm::Svg.check(None).unwrap_err().to_string().contains("not trees"));
    let refused = TreeForm::Conllu.check(Some(TreeKind::Constituency)).unwrap_err().to_string();
    assert!(refused.contains("expected indented, bracketed, svg"), "{refused}");
    assert!(TreeForm::Conllu.check(Some(TreeKind::Dependency)).is_ok());
}
