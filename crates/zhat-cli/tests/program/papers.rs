//! `zhat repro`: tables of the papers.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::support::Folder;

/// The first table, of trees. The program is stopped before the chains, which take much longer.
#[test]
fn table_2_has_the_errors_on_trees_beside_those_of_the_paper() {
    let folder = Folder::new("repro-rdp-table2");
    let mut command = folder.command(&["repro", "rdp-table2", "--quick", "--runs", "2"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut table = Vec::new();
    for line in lines {
        // The last row.
        let last = line.starts_with("| threshold, K = 400, local");
        table.push(line);
        if last {
            break;
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let cells = |name: &str| -> Vec<&str> {
        let row = table.iter().find(|line| line.starts_with(&format!("| {name}"))).unwrap();
        row.split('|').map(str::trim).skip(2).take(3).collect()
    };
    let ours = |cell: &str| -> f64 { cell.split(' ').next().unwrap().parse().unwrap() };
    assert!(table.iter().any(|line| line.starts_with("Trees, N = 2000, T = 15: log Z")), "{table:?}");
    // Top K is deterministic; the paper's value is in parentheses.
    let top = cells("top K = 500 (25%)");
    assert!(top[0].ends_with("(36.127)") && (30.0..90.0).contains(&ours(top[0])), "{top:?}");
    // Eq. 18 is biased, and its error does not fall with K; that of all products does.
    let [few, many] = ["10", "200"].map(|half| cells(&format!("paper, K₁ = K₂ = {half}, all products")));
    assert!(ours(many[0]) < 1.0 && ours(many[0]) < ours(few[0]), "{few:?} {many:?}");
    let printed = cells("paper, K₁ = K₂ = 200, Eq. 18");
    assert!(ours(printed[0]) > 50.0 && printed[0].ends_with("(0.445)"), "{printed:?}");
    for chosen in [20, 200, 400] {
        let threshold = cells(&format!("threshold, K = {chosen}, local"));
        assert!(threshold.iter().all(|cell| ours(cell) < 1e-20), "{threshold:?}");
    }
}
