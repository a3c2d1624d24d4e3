//! On the benchmark models the program prints exactly the library's results.

use std::path::PathBuf;

use crate::support::Folder;
use zhat::exact::Elimination;
use zhat::{FactorGraph, LogPartition, Marginals, Run, io};

#[test]
fn the_program_prints_the_librarys_results() {
    let Some(data) = std::env::var_os("ZHAT_DATA").map(PathBuf::from) else {
        eprintln!("skipped: the program on the benchmark models needs ZHAT_DATA");
        return;
    };
    let index = std::fs::read_to_string(data.join("uai/INDEX.tsv")).unwrap();
    let header: Vec<&str> = index.lines().next().unwrap().split('\t').collect();
    let column = |name: &str| header.iter().position(|cell| *cell == name).unwrap();
    let folder = Folder::new("reference");
    let mut models = 0;
    for line in index.lines().skip(1) {
        let cells: Vec<&str> = line.split('\t').collect();
        let clique = cells[column("log2_max_clique")].parse().unwrap_or(f64::INFINITY);
        if clique > 20.0 || cells[column("ref_log10PR")].is_empty() {
            continue;
        }
        let path = data.join("uai").join(cells[column("family")]).join(cells[column("name")]);
        let evidence = format!("{}.evid", path.display());
        let model = io::read_model(&path).unwrap();
        let graph = model.get::<FactorGraph>().unwrap();
        let graph = graph.condition(&io::uai::read_evidence(evidence.as_ref(), graph).unwrap()).unwrap();
        let path = path.to_string_lossy().into_owned();
        let options = ["--evidence", &evidence, "--method", "elimination"];
        let ask = |query: &str| folder.json(&[&[query, &path], &options as &[&str]].concat());

        let z = Elimination::default().log_partition(&graph, &Run::default()).unwrap().value;
        assert_eq!(ask("logz")["value"].as_f64().unwrap().to_bits(), z.to_bits(), "{path}");
        let beliefs = Elimination::default().marginals(&graph, &Run::default()).unwrap().value;
        let variables = ask("marginals");
        for (v, want) in beliefs.iter().enumerate() {
            let got: Vec<f64> = serde_json::from_value(variables["variables"][v]["p"].clone()).unwrap();
            assert_eq!(got, want, "{path}: variable {v}");
        }
        models += 1;
    }
    assert!(models >= 10);
}
