//! Every format, read from text, and mistakes in it.

use super::*;

fn options(space: Space) -> ReadOptions {
    ReadOptions { space, ..Default::default() }
}

const ARFF: &str = "@relation t\n% comment\n@attribute a numeric\n@ATTRIBUTE 'b c' {x,'y z'}\n@attribute l1 {0,1}\n@attribute l2 {0,1}\n\n@data\n1.5,x,1,0\n?,'y z',0,1\n-2,x,0,0\n";
const SPARSE: &str = "@relation t\n@attribute a numeric\n@attribute b numeric\n@attribute l1 {0,1}\n@attribute l2 {0,1}\n@data\n{0 1.5, 2 1}\n{1 -2,3 1}\n{}\n";
const CLUS: &str = "@RELATION t\n@ATTRIBUTE a numeric\n@ATTRIBUTE class hierarchical 1,1/1,1/1/1,1/2,2,2/a\n@DATA\n0.5,1/1/1@2\n1,1/2\n2,2/a@1\n";
const LIBSVM: &str = "3,1 1:0.5 4:2\n 2:1\n3 4:-1\n";
const RANKS: &str = "A1,A2,L1,L2,L3\n0.5,u,1,2,3\n1,v,3,1,2\n";

fn mulan_or_clus(text: &str, options: &ReadOptions, labels: &[&str]) -> Result<Examples> {
    // One label per line, from line 2 on.
    let listed: String = labels.iter().map(|label| format!("<label name=\"{label}\"/>\n")).collect();
    let xml = format!("<labels>\n{listed}</labels>");
    let labels = if labels.is_empty() { None } else { Some(xml::labels(&xml, "t.xml").unwrap()) };
    arff::parse(Lines::of(text), "t.arff", options, labels)
}

#[test]
fn arff_files_dense_and_sparse() {
    let read = mulan_or_clus(ARFF, &options(Space::Labels), &["l1", "l2"]).unwrap();
    assert_eq!((read.rows(), read.lines.as_slice()), (3, &[9, 10, 11][..]));
    assert_eq!(read.columns[1].levels.as_deref(), Some(&["x".to_owned(), "y z".to_owned()][..]));
    let Cells::Dense(cells) = &read.cells else { panic!() };
    assert_eq!((cells[0], cells[1], cells[3], cells[4]), (1.5, 0.0, 1.0, -2.0));
    assert!(cells[2].is_nan());
    let Some(Targets::Sets(sets)) = &read.targets else { panic!() };
    assert_eq!((sets.row(0), sets.row(1), sets.row(2)), (&[0][..], &[1][..], &[][..]));
    let read = mulan_or_clus(SPARSE, &options(Space::Labels), &["l2", "l1"]).unwrap();
    let Cells::Sparse { ends, indices, values } = &read.cells else { panic!() };
    assert_eq!(
        (ends.as_slice(), indices.as_slice(), values.as_slice()),
        (&[1, 2, 2][..], &[0, 1][..], &[1.5, -2.0][..])
    );
    let Some(Targets::Sets(sets)) = &read.targets else { panic!() };
    // In the order of the list of labels.
    assert_eq!((sets.row(0), sets.row(1), sets.row(2)), (&[1][..], &[0][..], &[][..]));
}

#[test]
fn hierarchies() {
    let read = mulan_or_clus(CLUS, &options(Space::Hierarchy), &[]).unwrap();
    assert_eq!(read.names, ["1", "1/1", "1/1/1", "1/2", "2", "2/a"]);
    assert_eq!(read.parents, [None, Some(0), Some(1), Some(0), None, Some(4)]);
    let Some(Targets::Sets(sets)) = &read.targets else { panic!() };
    assert_eq!((sets.row(0), sets.row(1), sets.row(2)), (&[0, 1, 2, 4][..], &[0, 3][..], &[0, 4, 5][..]));
    let table = "a,class\n1,1/1@2\n2,\n3,2/b/c\n";
    let read = csv::parse(table, "t.csv", &options(Space::Hierarchy)).unwrap();
    assert_eq!(read.names, ["1", "1/1", "2", "2/b", "2/b/c"]);
    let Some(Targets::Sets(sets)) = &read.targets else { panic!() };
    assert_eq!((sets.row(0), sets.row(1), sets.row(2)), (&[0, 1, 2][..], &[][..], &[2, 3, 4][..]));
    // Edges of a tree.
    let edges = CLUS
        .replace("1,1/1,1/1/1,1/2,2,2/a", "root/x,x/y,x/z")
        .replace("1/1/1@2", "y")
        .replace("1/2", "x")
        .replace("2/a@1", "z@y");
    let read = mulan_or_clus(&edges, &options(Space::Hierarchy), &[]).unwrap();
    assert_eq!((read.names.len(), read.parents.as_slice()), (3, &[None, Some(0), Some(0)][..]));
}

#[test]
fn libsvm_and_csv_files() {
    assert!(libsvm::looks_like("3,1 1:0.5") && libsvm::looks_like("1:2 3:4"));
    assert!(!libsvm::looks_like("a,b,c") && !libsvm::looks_like("1,2,3"));
    let read = libsvm::parse(Lines::of(LIBSVM), "t", &options(Space::Labels)).unwrap();
    assert_eq!((read.names.as_slice(), read.columns.len()), (&["1".to_owned(), "3".to_owned()][..], 4));
    let Some(Targets::Sets(sets)) = &read.targets else { panic!() };
    assert_eq!((sets.row(0), sets.row(1), sets.row(2)), (&[0, 1][..], &[][..], &[1][..]));
    let read = csv::parse(RANKS, "t", &options(Space::Ranking)).unwrap();
    assert_eq!(read.names, ["L1", "L2", "L3"]);
    assert_eq!(read.targets.as_ref().unwrap().structure(1), Some(vec![1, 2, 0]));
    assert_eq!(read.columns[1].levels.as_ref().map(Vec::len), Some(2));
    let blocks = csv::parse(
        "x;p;q;r\n1;a;b;a\n",
        "t",
        &ReadOptions { labels: ["p", "q", "r"].map(String::from).to_vec(), ..options(Space::Partition) },
    );
    assert_eq!(blocks.unwrap().targets.unwrap().structure(0), Some(vec![0, 1, 0]));
    let partial = ReadOptions { partial: true, ..options(Space::Ranking) };
    let read = csv::parse("A1,L1,L2,L3\n1,1,2,2\n1,,2,1\n", "t", &partial).unwrap();
    assert_eq!(read.targets, Some(Targets::Ranks(Ranks { items: 3, ranks: vec![1, 2, 2, 0, 2, 1] })));
    // A file for prediction has no targets.
    let known = Known { names: vec!["L1".into(), "L2".into(), "L3".into()], parents: vec![], columns: 2 };
    let bare = ReadOptions { known: Some(known), ..options(Space::Ranking) };
    assert!(csv::parse("A1,A2\n0.5,u\n", "t", &bare).unwrap().targets.is_none());
}

#[test]
fn mistakes_are_named_with_line_and_token() {
    let labels = options(Space::Labels);
    let ranking = options(Space::Ranking);
    let hierarchy = options(Space::Hierarchy);
    let mulan = |text: &str, names: &[&str]| mulan_or_clus(text, &labels, names).unwrap_err().to_string();
    let clus = |text: &str| mulan_or_clus(text, &hierarchy, &[]).unwrap_err().to_string();
    let table =
        |text: &str, options: &ReadOptions| csv::parse(text, "t.csv", options).unwrap_err().to_string();
    let svm = |text: &str| libsvm::parse(Lines::of(text), "t", &labels).unwrap_err().to_string();
    let cases = [
        (mulan(ARFF, &["l1", "l3"]), "t.xml: line 3: the label `l3` is no attribute of t.arff"),
        (
            mulan(ARFF, &["l1"]),
            "t.arff: line 6: the attribute `l2` comes after labels, but t.xml does not list it",
        ),
        (
            mulan(
                "@relation t\n@attribute l1 {0,1}\n@attribute l2 {0,1}\n@attribute l3 {0,1}\n@attribute a numeric\n@data\n1,0,1,2.5\n",
                &["l1", "l3"],
            ),
            "t.arff: line 3: the attribute `l2` comes between labels, but t.xml does not list it",
        ),
        (
            mulan(&ARFF.replace("@relation t", "@relation 't: -C 3'"), &["l1", "l2"]),
            "t.arff: line 1: the relation has 3 labels (-C), but t.xml lists 2",
        ),
        (
            mulan(&ARFF.replace("1.5", "1.5x"), &["l1", "l2"]),
            "t.arff: line 9: column a is `1.5x`, expected a number",
        ),
        (
            mulan(&ARFF.replace("1.5", "inf"), &["l1", "l2"]),
            "t.arff: line 9: column a is `inf`, expected a finite number",
        ),
        (
            mulan(&ARFF.replace(",1,0\n", ",2,0\n"), &["l1", "l2"]),
            "t.arff: line 9: column l1 is `2`, expected 0 or 1",
        ),
        (
            mulan(&ARFF.replace("x,0,0", "w,0,0"), &["l1", "l2"]),
            "line 11: column b c is `w`, expected one of x, y z",
        ),
        (mulan(&ARFF.replace("-2,x,0,0", "-2,x,0"), &["l1", "l2"]), "line 11: found 3 values, expected 4"),
        (mulan(&SPARSE.replace("{1 -2", "{9 -2"), &["l1", "l2"]), "line 8: `9` is no attribute"),
        (mulan("@attribute a date\n@data\n", &["a"]), "line 1: attribute a has the type `date`"),
        (mulan("@attribute a numeric\n", &["a"]), "ends before @data"),
        (mulan(ARFF, &[]), "no labels are known"),
        (
            clus(&CLUS.replace("1/2\n", "1/9\n")),
            "line 6: column class: the class `1/9` is not in the hierarchy",
        ),
        (
            clus(&CLUS.replace("1,1/1,1/1/1,1/2,2,2/a", "root/x,root/y,x/z,y/z")),
            "line 3: class `z` has the parents `x` and `y`: trees only",
        ),
        (
            clus(&CLUS.replace("1,1/1,1/1/1,1/2,2,2/a", "root/w,x/y,y/x")),
            "line 3: the classes form a cycle: trees only",
        ),
        (
            clus(&CLUS.replace("hierarchical 1,", "hierarchical 1//2,")),
            "line 3: the path `1//2` has an empty part",
        ),
        (clus(ARFF), "no attribute has the type hierarchical"),
        (
            table(&RANKS.replace("1,2,3\n", "1,2,2\n"), &ranking),
            "t.csv: line 2: column L3 is `2`, expected a rank that no other item",
        ),
        (
            table(&RANKS.replace("1,2,3\n", "1,2,4\n"), &ranking),
            "line 2: column L3 is `4`, expected a rank from 1 to 3",
        ),
        (table(&RANKS.replace("1,2,3\n", "1,2,x\n"), &ranking), "line 2: column L3 is `x`, expected a rank"),
        (table(RANKS, &labels), "no target columns"),
        (table("a,a\n1,2\n", &ranking), "two columns have the name `a`"),
        (table("A1,L1,L2\n1,2\n", &ranking), "line 2: found 2 values, expected 3"),
        (svm("3 1:x\n"), "line 1: column 1 is `x`, expected a number"),
        (svm("3 2:1 2:1\n"), "line 1: `2:1`: indices must increase"),
        (svm("3,a 2:1\n"), "line 1: `a` is no label number"),
        (svm("3 0:1\n"), "at least 1"),
        (xml::labels("<labels><label/></labels>", "t.xml").unwrap_err().to_string(), "has no attribute name"),
        (
            xml::labels("<labels>\n<label name=\"a\"/><label name='a'/>", "t.xml").unwrap_err().to_string(),
            "t.xml: line 2: the label `a` is listed twice",
        ),
        (xml::labels("<x></x>", "t.xml").unwrap_err().to_string(), "no label is listed"),
    ];
    for (found, want) in cases {
        assert!(found.contains(want), "{found}\n{want}");
    }
}

#[test]
fn broken_files_never_panic() {
    let labels = Some(Labels { names: vec!["l1".to_owned(), "l2".to_owned()], xml: None });
    for (text, space) in [
        (ARFF, Space::Labels),
        (SPARSE, Space::Labels),
        (CLUS, Space::Hierarchy),
        (LIBSVM, Space::Labels),
        (RANKS, Space::Ranking),
    ] {
        for at in 0..text.len() {
            for byte in [b' ', b',', b'{', b'}', b'\'', b'\n', b'@', b'/', b'0', b'9', b'-', b'<', b'%'] {
                let mut bytes = text.as_bytes().to_vec();
                bytes[at] = byte;
                let text = String::from_utf8(bytes).unwrap();
                let own = options(space);
                let _ = arff::parse(Lines::of(&text), "t", &own, labels.clone());
                let _ = csv::parse(&text, "t", &own);
                let _ = libsvm::parse(Lines::of(&text), "t", &own);
                let _ = xml::labels(&text, "t");
            }
            let _ = arff::parse(Lines::of(&text[..at]), "t", &options(space), labels.clone());
            let _ = csv::parse(&text[..at], "t", &options(space));
        }
    }
}

/// Lines that were read before and lines that are read later are numbered together.
#[test]
fn lines_are_read_one_after_the_other() {
    for cut in [0, 10, 11] {
        let text = "\u{feff}@a \u{e4}\r\n\nlast";
        let (start, rest) = text.split_at(cut);
        let mut lines = Lines::after(start.as_bytes().to_vec(), OpenInput::of(rest, "t"));
        let mut found = Vec::new();
        while let Some((number, line)) = lines.next().unwrap() {
            found.push((number, line.to_owned()));
        }
        assert_eq!(found, [(1, "@a \u{e4}".into()), (2, String::new()), (3, "last".into())], "{cut}");
    }
    let name = format!("zhat-lines-{}.arff", std::process::id());
    let path = std::env::temp_dir().join(name);
    let read = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        read_examples(&path, &options(Space::Hierarchy)).map_err(|error| error.to_string())
    };
    let crlf = format!("\u{feff}% comment\r\n{}", CLUS.replace('\n', "\r\n"));
    assert_eq!(read(crlf.as_bytes()).unwrap().lines, [6, 7, 8]);
    let mut bytes = CLUS.as_bytes().to_vec();
    let at = bytes.len() - 3;
    bytes[at] = 0xff;
    assert!(read(&bytes).unwrap_err().ends_with("line 7: the text is not UTF-8"));
    assert!(read(b"\n% only a comment\n").unwrap_err().contains("the file is empty"));
    std::fs::remove_file(&path).unwrap();
}
