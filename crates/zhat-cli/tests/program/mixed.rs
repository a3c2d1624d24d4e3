//! The program on models with continuous variables.

use crate::support::Folder;

#[test]
fn a_density_is_generated_shown_and_integrated() {
    let folder = Folder::new("mixed");
    let words = |text: &str| folder.ok(&text.split_whitespace().collect::<Vec<_>>());
    words("generate continuous --family gamma --parameters 2,1 --low 0.5 --high 4 -o gamma.zhat");
    let info = words("info gamma.zhat --all");
    assert!(
        info.contains("mixed-model") && info.contains("gauss-legendre") && info.contains("closed forms"),
        "{info}"
    );
    let figures = folder.json(&["info", "gamma.zhat"]);
    assert_eq!((&figures["continuous"], &figures["numerical"]), (&1.into(), &false.into()));
    let answer = folder.json(&["logz", "gamma.zhat"]);
    // Z = ∫ x e⁻ˣ dx.
    let truth = (1.5 * (-0.5f64).exp() - 5.0 * (-4f64).exp()).ln();
    let ends = |name: &str| answer["guarantee"][name].as_f64().unwrap();
    assert_eq!(answer["guarantee"]["kind"], "bounds");
    assert!(ends("low") <= truth && truth <= ends("high") && ends("high") - ends("low") < 2e-9, "{answer}");
    let plain = words("logz gamma.zhat --method sccq --set error=0.001");
    assert!(plain.starts_with("log Z      between -0.2") && plain.contains("certified bounds"), "{plain}");
    let numerical = folder.json(&["logz", "gamma.zhat", "--method", "gauss-legendre"]);
    assert!((numerical["value"].as_f64().unwrap() - truth).abs() < 1e-11);
}

#[test]
fn mixtures_and_default_boxes() {
    let folder = Folder::new("mixtures");
    for family in [
        "gaussian",
        "exponential",
        "gamma",
        "chi-squared",
        "weibull",
        "log-normal",
        "pareto",
        "beta",
        "laplace",
        "poisson",
        "dirichlet",
        "mixture",
    ] {
        folder.ok(&["generate", "continuous", "--family", family, "-o", "model.zhat"]);
        let answer = folder.json(&["logz", "model.zhat", "--method", "sccq"]);
        let reference = folder.json(&["logz", "model.zhat", "--method", "gauss-legendre"]);
        let value = |answer: &serde_json::Value| answer["value"].as_f64().unwrap();
        assert!((value(&answer) - value(&reference)).abs() < 1e-8, "{family}: {answer} {reference}");
    }
}

#[test]
fn extreme_options_keep_the_time_limit() {
    let folder = Folder::new("mixed-sizes");
    folder.ok(&["generate", "continuous", "-o", "m.zhat"]);
    folder.ok(&["generate", "sequence-mrf", "-o", "s.zhat"]);
    for (model, method, option) in [
        ("m.zhat", "sccq", "degree=1000000000"),
        ("m.zhat", "sccq", "cells=18446744073709551615"),
        ("m.zhat", "gauss-legendre", "points=1e300"),
        ("s.zhat", "annealed", "replicates=18446744073709551615"),
        ("s.zhat", "annealed", "replicates=1000000000000"),
        ("s.zhat", "annealed", "levels=18446744073709551615"),
        ("s.zhat", "spectral", "passes=18446744073709551615"),
        ("s.zhat", "star", "iterations=18446744073709551615"),
    ] {
        let begin = std::time::Instant::now();
        let ran = folder
            .run(&["logz", model, "--method", method, "--set", option, "--time", "1s", "--memory", "1G"]);
        assert!(ran.status() < 100, "{method} {option}: {}", ran.stderr());
        assert!(begin.elapsed().as_secs_f64() < 1.1 + 1.0, "{method} {option}: {:?}", begin.elapsed());
    }
}

#[test]
fn invalid_requests_are_refused_with_a_reason() {
    let folder = Folder::new("mixed-failures");
    let refused = |text: &str| {
        let ran = folder.run(&text.split_whitespace().collect::<Vec<_>>());
        assert_ne!(ran.status(), 0, "{text}");
        ran.stderr()
    };
    assert!(refused("generate continuous --family cauchy -o m.zhat").contains("gaussian"));
    assert!(refused("generate continuous --family gamma --parameters 2 -o m.zhat").contains("shape, rate"));
    assert!(refused("generate continuous --family gamma --low 0 -o m.zhat").contains("a > 0"));
    assert!(refused("generate continuous -o m.uai").contains(".zhat"));
    folder.ok(&["generate", "continuous", "-o", "m.zhat"]);
    assert!(refused("marginals m.zhat").contains("mixed-model"));
    assert!(refused("logz m.zhat --given 0=1").contains("evidence"), "evidence about a density");
    assert!(refused("logz m.zhat --method sccq --set samples=100").contains("draws"));
    assert!(refused("logz m.zhat --format uai").contains("factor graphs"));
}
