//! `zhat fit --kind hmm`: checkpoints and bad input.

use crate::support::Folder;

/// Sequences of two columns that move between two levels.
fn table(sequences: usize, steps: usize) -> String {
    let mut state = 7_u64;
    let mut draw = |n: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % n
    };
    let mut text = String::from("sequence,a,b\n");
    for sequence in 0..sequences {
        let mut level = draw(2);
        for _ in 0..steps {
            text += &format!("{sequence},{},{}.5\n", 3 * level + draw(5), draw(7));
            level = if draw(6) == 0 { 1 - level } else { level };
        }
    }
    text
}

#[cfg(unix)]
#[test]
fn a_killed_run_resumes_to_the_same_bits() {
    let folder = Folder::new("hmm-kill");
    folder.write("train.csv", &table(40, 300));
    let line = "fit train.csv --kind hmm --states 6 --starts 2 --iterations 30 --tolerance 0";
    for (number, own) in
        ["--optimizer em", "--optimizer lbfgs", "--emissions poisson --ignore b"].iter().enumerate()
    {
        let line = format!("{line} {own}");
        let arguments: Vec<&str> = line.split(' ').collect();
        let whole = format!("whole{number}.zhat");
        folder.ok(&[&arguments[..], &["-o", &whole]].concat());
        let (model, checkpoint) = (format!("m{number}.zhat"), format!("c{number}.zhat"));
        let kept =
            [&arguments[..], &["--checkpoint", &checkpoint, "--keep-every", "0", "-o", &model]].concat();
        let mut child = folder.command(&kept).stderr(std::process::Stdio::null()).spawn().unwrap();
        while !folder.path().join(&checkpoint).exists() && child.try_wait().unwrap().is_none() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        child.kill().unwrap(); // SIGKILL
        child.wait().unwrap();
        assert!(!folder.path().join(&model).exists(), "{own}: it had ended before it was killed");
        folder.ok(&kept);
        let read = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
        assert!(read(&model) == read(&whole), "{own}");
    }
}

#[test]
fn bad_input_is_refused_with_its_place() {
    let folder = Folder::new("hmm-bad");
    let refused = |text: &str, arguments: &str, message: &str| {
        folder.write("t.csv", text);
        let line = format!("fit t.csv --kind hmm -o m.zhat {arguments}");
        let ran = folder.run(&line.split_whitespace().collect::<Vec<_>>());
        assert_eq!(ran.status(), 2, "{arguments}: {}", ran.stderr());
        assert!(ran.stderr().contains(message), "{arguments}: {}", ran.stderr());
        assert!(!folder.path().join("m.zhat").exists(), "{arguments}");
    };
    let good = table(2, 20);
    refused(&good, "", "--states");
    refused(&good, "--states 0", "states");
    refused(&good, "--states 2 --keep-every 1", "--checkpoint");
    refused(&good, "--states 2 --emissions poisson", "line 2: column b");
    refused("a\n", "--states 2", "no rows");
    folder.write("other.zhat", "{}");
    refused(&good, "--states 2 --from other.zhat", "other.zhat");
}
