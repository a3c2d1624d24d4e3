//! Formats of tagged files: values, round trips, errors and broken files.

use proptest::prelude::*;

use super::*;

const CONLLU: &str = "# sent_id = 1\n# text = I don't.\n1\tI\tI\tPRON\tPRP\t_\t2\tnsubj\t_\t_\n2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\t_\n2\tdo\tdo\tAUX\tVBP\t_\t0\troot\t_\t_\n3\tn't\tnot\tPART\tRB\t_\t2\tadvmod\t_\t_\n3.1\tgo\tgo\tVERB\tVB\t_\t_\t_\t_\t_\n4\t.\t.\tPUNCT\t_\t_\t2\tpunct\t_\t_\n\n# two\n1\tYes\tyes\tINTJ\tUH\t_\t0\troot\t_\t_\n\n";
const COLUMNS: &str = "Confidence NN B-NP\r\nin IN B-PP\n\n\n  the DT B-NP\npound NN I-NP";
const WORDS: &str = "the_DT dog_NN\n\n a_b_c_X  d_Y \r\n";
const CRFSUITE: &str = "B-NP\tw[0]=a\\:b:2.5\tw[1]=\\\\\tbias\nO\tbias:-1\n\n_\tx\n";
const CSV: &str =
    "sentence,word,pos,tag\n1,the,DT,O\n1,\"a,\"\"b\"\"\",NN,\"I,x\"\n2,\"multi\nline\",X,\n2,end,Y,_\n";

fn options(format: Format) -> ReadOptions {
    ReadOptions::default().format(Some(format))
}

fn all() -> [(&'static str, Format); 5] {
    [
        (CONLLU, Format::Conllu),
        (COLUMNS, Format::Columns),
        (WORDS, Format::Words),
        (CRFSUITE, Format::Crfsuite),
        (CSV, Format::Csv),
    ]
}

fn read(text: &str, options: &ReadOptions) -> Result<Corpus> {
    Corpus::parse(text.into(), "file", options)
}

fn shown(corpus: &Corpus) -> Vec<String> {
    let one = |sentence: Sentence<'_>| {
        let token = |i| format!("{}/{}", sentence.word(i), sentence.tag(i).unwrap_or("?"));
        (0..sentence.len()).map(token).collect::<Vec<_>>().join(" ")
    };
    corpus.sentences().map(one).collect()
}

#[test]
fn every_format_gives_its_tokens() {
    let found: Vec<Vec<String>> =
        all().iter().map(|(text, format)| shown(&read(text, &options(*format)).unwrap())).collect();
    assert_eq!(found[0], ["I/PRON do/AUX n't/PART ./PUNCT", "Yes/INTJ"]);
    assert_eq!(found[1], ["Confidence/B-NP in/B-PP", "the/B-NP pound/I-NP"]);
    assert_eq!(found[2], ["the/DT dog/NN", "a_b_c/X d/Y"]);
    assert_eq!(found[3], ["/B-NP /O", "/?"]);
    assert_eq!(found[4], ["the/O a,\"b\"/I,x", "multi\nline/? end/?"]);
    assert_eq!(shown(&read("a_B c__ d____\n", &options(Format::Words)).unwrap()), ["a/B c/? d__/?"]);
    let xpos = options(Format::Conllu).column(Some("xpos".into()));
    assert_eq!(shown(&read(CONLLU, &xpos).unwrap())[0], "I/PRP do/VBP n't/RB ./?");
    let second = options(Format::Columns).column(Some("2".into()));
    assert_eq!(shown(&read(COLUMNS, &second).unwrap())[1], "the/DT pound/NN");
    let corpus = read(CRFSUITE, &options(Format::Crfsuite)).unwrap();
    let attributes: Vec<_> =
        corpus.sentence(0).attributes(0).map(|(name, w)| (name.into_owned(), w)).collect();
    assert_eq!(attributes, [("w[0]=a:b".into(), 2.5), ("w[1]=\\".into(), 1.0), ("bias".into(), 1.0)]);
    let table = read(CSV, &options(Format::Csv)).unwrap();
    assert_eq!(table.sentence(0).field(1, 2).as_deref(), Some("a,\"b\""));
    assert_eq!((table.sentence(1).line(0), table.sentence(1).line(1)), (4, 6));
}

#[test]
fn formats_are_found_from_the_text() {
    for (text, format) in all().into_iter().take(4) {
        assert_eq!(Format::of(text, "x.txt"), format);
    }
    assert_eq!(Format::of("a", "x.csv.gz"), Format::Csv);
    assert_eq!(Format::of("", "x.conllu.zst"), Format::Conllu);
    assert_eq!(Format::of("one\nword\n", "-"), Format::Columns);
    assert!(Format::ALL.iter().all(|(name, format)| Format::named(name).unwrap() == *format));
}

#[test]
fn files_are_written_back_byte_by_byte_except_for_tags() {
    for (text, format) in all() {
        let corpus = read(text, &options(format)).unwrap();
        let tags: Vec<Vec<String>> = corpus
            .sentences()
            .map(|s| (0..s.len()).map(|i| s.tag(i).unwrap_or("_").to_owned()).collect())
            .collect();
        let mut out = Vec::new();
        corpus.write(&tags, &mut out).unwrap();
        let written = String::from_utf8(out).unwrap();
        assert_eq!(written, text.replace("X,\n", "X,_\n"), "{}", format.name());
        let other: Vec<Vec<String>> =
            corpus.sentences().map(|s| (0..s.len()).map(|i| format!("T{i}")).collect()).collect();
        let mut out = Vec::new();
        corpus.write(&other, &mut out).unwrap();
        let again = read(&String::from_utf8(out).unwrap(), &options(format)).unwrap();
        for (a, b) in corpus.sentences().zip(again.sentences()) {
            assert_eq!(a.len(), b.len());
            for i in 0..a.len() {
                assert_eq!((a.word(i), Some(format!("T{i}").as_str())), (b.word(i), b.tag(i)));
            }
        }
        assert!(corpus.write(&tags[1..], &mut Vec::new()).is_err());
    }
}

#[test]
fn tags_are_added_to_files_without_them() {
    let added = |text: &str, format, tags: &[Vec<&str>]| {
        let corpus = read(text, &options(format).tagged(false)).unwrap();
        assert!(corpus.sentences().all(|s| (0..s.len()).all(|i| s.tag(i).is_none())));
        let mut out = Vec::new();
        corpus.write(tags, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    let tags = [vec!["A", "B"], vec!["C"]];
    assert_eq!(added("x\ny\r\n\nz", Format::Columns, &tags), "x A\ny B\r\n\nz C");
    assert_eq!(added("x\t1\ny\t2\n\nz\t3", Format::Columns, &tags), "x\t1\tA\ny\t2\tB\n\nz\t3\tC");
    assert_eq!(added("x  y\nz\n", Format::Words, &tags), "x_A  y_B\nz_C\n");
    assert_eq!(added("id,word\n1,x\n1,y\n2,z\n", Format::Csv, &tags), "id,word,tag\n1,x,A\n1,y,B\n2,z,C\n");
}

#[test]
fn errors_name_line_and_token() {
    let fails = |text: &str, options: ReadOptions, part: &str| {
        let message = read(text, &options).unwrap_err().to_string();
        assert!(message.contains(part), "`{message}` without `{part}`");
    };
    for (_, format) in all() {
        fails("", options(format), if format == Format::Csv { "no column" } else { "no token was found" });
    }
    fails("a B\nc\n", options(Format::Columns), "file: line 2: token `c`: 1 column, but line 1 has 2");
    fails("a B\n", options(Format::Columns).column(Some("3".into())), "line 1: there is no column 3 of tags");
    fails("a B\n", options(Format::Columns).column(Some("0".into())), "column: expected the number");
    fails("a\nb\n", options(Format::Columns), "token `a`: the column of its word is the column of its tag");
    fails("a\t\n", options(Format::Columns), "token `a`: its tag is empty");
    fails("a_B c\n", options(Format::Words), "line 1: token `c` has no tag");
    fails("a_B c_\n", options(Format::Words), "line 1: token `c_` has no tag");
    fails("__\n", options(Format::Words), "line 1: token `__` has no tag");
    fails("1\ta\n", options(Format::Conllu), "line 1: expected 10 columns separated by tabs, found 2");
    fails(&CONLLU.replace("\n1\tYes", "\nx\tYes"), options(Format::Conllu), "line 11: expected the number");
    fails(CONLLU, options(Format::Conllu).column(Some("tag".into())), "or id, form, lemma");
    fails(CONLLU, options(Format::Conllu).column(Some("11".into())), "11 is out of range");
    fails("A\tx:y\n", options(Format::Crfsuite), "line 1: attribute 1 `x:y`: expected a finite weight");
    fails("\tx\n", options(Format::Crfsuite), "line 1: the line has no label");
    fails("id,word,tag\n1,a\n", options(Format::Csv), "line 2: the row has 2 cells, expected 3");
    fails("id,word,tag\n1,a,B\n2,a,B\n1,a,B\n", options(Format::Csv), "line 4: the sequence `1` continues");
    fails("id,word,x\n1,a,B\n", options(Format::Csv), "no column of tags");
    fails("id,word,x\n1,a,B\n", options(Format::Csv).column(Some("y".into())), "there is no column `y`");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn broken_files_never_panic(
        which in 0usize..5,
        changes in prop::collection::vec((any::<prop::sample::Index>(), prop::sample::select(vec![
            '\t', '\n', '\r', ' ', '_', ',', '"', ':', '\\', '#', '-', '.', '1', 'é', '\u{a0}', '\u{2028}', '\0',
        ]), any::<bool>()), 0..8),
        tagged in any::<bool>(),
        as_format in prop::option::of(0usize..5),
    ) {
        let (text, own) = all()[which];
        let mut letters: Vec<char> = text.chars().collect();
        for (place, letter, replace) in changes {
            let at = place.index(letters.len());
            if replace { letters[at] = letter } else { letters.insert(at, letter) }
        }
        let text: String = letters.into_iter().collect();
        let format = as_format.map_or(own, |i| all()[i].1);
        if let Ok(corpus) = read(&text, &options(format).tagged(tagged)) {
            let tags: Vec<Vec<&str>> = corpus.sentences().map(|s| vec!["T"; s.len()]).collect();
            for sentence in corpus.sentences() {
                for i in 0..sentence.len() {
                    let _ = (sentence.word(i), sentence.tag(i), sentence.field(i, 1), sentence.field(i, 9));
                    sentence.attributes(i).for_each(drop);
                }
            }
            corpus.write(&tags, &mut Vec::new()).unwrap();
        }
    }
}
