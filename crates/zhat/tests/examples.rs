//! The examples are run, not only compiled.

macro_rules! examples {
    ($($name:ident),* $(,)?) => {
        $(
            #[path = "../examples"]
            mod $name {
                #![allow(dead_code)]
                #[path = "."]
                mod file {
                    include!(concat!("../examples/", stringify!($name), ".rs"));
                    pub fn run() -> zhat::Result<()> {
                        main()
                    }
                }
                #[test]
                fn runs() {
                    file::run().unwrap();
                }
            }
        )*

        #[test]
        fn none_is_left_out() {
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/examples");
            let mut found: Vec<String> = std::fs::read_dir(folder)
                .unwrap()
                .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
                .collect();
            let mut run = vec![$(stringify!($name).to_owned()),*];
            found.sort();
            run.sort();
            assert_eq!(found, run);
        }
    };
}

examples!(
    bayesian_network,
    chain_gradient,
    certified_interval,
    learn_from_table,
    own_model,
    ranking,
    segmentation
);
