//! Spaces of unknown size: conditions and user-defined spaces.

use std::time::Duration;

use super::spaces::{counts, enumerated, enumerates_the_list, law, listed, small};
use crate::support::statistics::{ALARM, binomial_tail, multinomial_tail};
use crate::support::structures::{Listed, permutations};
use zhat::catalogue::{Choice, Settings, answer};
use zhat::exact::Enumeration;
use zhat::io::model_file;
use zhat::random::Streams;
use zhat::space::{
    AnnealedSampling, Condition, Cycles, Hypercube, Oracle, Partitions, PerfectSampling, Permutations,
    PublishedScheme, Restricted, Sampler, Scores, Space, SpaceModel, Step, Structures, Telescoped,
    TootsiePop, UniformImportance, log_count,
};
use zhat::{
    Entropy, Error, FactorMarginals, Guarantee, KBest, LogPartition, Map, Marginals, Model, Query, Result,
    Run, Sample,
};

fn condition(text: &str) -> Condition {
    text.parse().unwrap()
}

/// Random conditions that apply to a model and are not too strict; some of them are user functions.
fn conditions(model: &SpaceModel, random: &mut zhat::random::Stream) -> Vec<Condition> {
    let n = model.width();
    if n < 2 {
        return vec![Condition::function(|_| Ok(true))];
    }
    let (i, j) = (random.below(n), random.below(n));
    let j = if i == j { (i + 1) % n } else { j };
    let not = if random.uniform() < 0.5 { "not " } else { "" };
    let event = match model.structures() {
        Structures::Permutations(_) if random.uniform() < 0.5 => format!("{not}before {i} {j}"),
        Structures::Permutations(_) => format!("not at {i} {j}"),
        Structures::Cycles(_) | Structures::Partitions(_) if random.uniform() < 0.5 => {
            format!("not linked {i} {j}")
        }
        Structures::Partitions(_) => format!("size 1 {}", n.div_ceil(2)),
        Structures::Cycles(_) => format!("size 3 {}", 3 + random.below(n - 2)),
        _ if random.uniform() < 0.5 => format!("size 0 {}", n.div_ceil(2)),
        _ => format!("{not}chosen {i}"),
    };
    let mut all = vec![condition(&event)];
    if random.uniform() < 0.3 {
        all.push(Condition::function(|y| Ok(y.iter().sum::<u32>() % 3 != 1)));
    }
    all
}

/// Small restricted models of each kind that have at least one structure.
fn restricted(seed: u64, scale: f64) -> Vec<SpaceModel> {
    let mut random = Streams::new(seed, "restricted").block(0);
    let models = small(seed, scale);
    let restrict = |model: &SpaceModel| model.restrict(conditions(model, &mut random)).unwrap();
    let some = |model: &SpaceModel| !listed(model.structures()).0.is_empty();
    models.iter().map(restrict).filter(some).collect()
}

#[test]
fn conditions_are_read_and_checked() {
    for text in ["chosen 3", "not chosen 0", "at 2 1", "before 0 4", "not linked 1 2", "size 2 5"] {
        assert_eq!(condition(text).to_string(), text);
        assert_eq!(condition(text), condition(&format!("  {text} ")));
    }
    for bad in ["", "chosen", "chosen x", "chosen -1", "not size 1 2", "at 1", "magic 1", "before 1 2 3"] {
        let error = bad.parse::<Condition>().unwrap_err().to_string();
        assert!(error.contains("is none of"), "{error}");
    }
    let cube = Hypercube::new(3).unwrap();
    for (text, words) in [
        ("chosen 3", "there is no 3"),
        ("before 0 1", "have no"),
        ("linked 0 1", "have no"),
        ("size 3 2", "above the most"),
    ] {
        let error = Restricted::new(cube, [condition(text)]).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    let orders = Permutations::new(3).unwrap();
    for (text, words) in [("before 1 1", "one element"), ("at 0 3", "there is no 3"), ("size 0 2", "have no")]
    {
        let error = Restricted::new(orders, [condition(text)]).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    let space = Restricted::new(cube, [condition("chosen 1")]).unwrap();
    let error = space.check(&[1, 0, 0]).unwrap_err().to_string();
    assert!(error.contains("`chosen 1`"), "{error}");
    space.check(&[1, 1, 0]).unwrap();
    // Restricts an already restricted space.
    let both = Restricted::new(space, [condition("not chosen 0")]).unwrap();
    assert_eq!(both.conditions().len(), 2);
    assert_eq!(enumerated(&both), [[0, 1, 0], [0, 1, 1]]);
}

#[test]
fn restricted_spaces_enumerate_exactly_the_structures_that_meet_the_conditions() {
    let mut tried = 0;
    for seed in 0..12 {
        for model in restricted(seed, 1.0) {
            enumerates_the_list(model.structures());
            tried += 1;
        }
    }
    assert!(tried > 150, "{tried}");
}

/// Exact methods respect conditions, or return an error if they do not support them.
#[test]
fn exact_methods_respect_conditions() {
    let run = Run::default();
    let mut exact = 0;
    for seed in 0..25 {
        for scale in [0.0, 1.0, 1e3] {
            for model in restricted(seed, scale) {
                let name = format!("{:?} {}", model.structures(), model.scores().name());
                let list = Listed::new(&model);
                let truth = list.log_partition();
                let counted = Enumeration::default().log_partition(&model, &run).unwrap();
                assert!((counted.value - truth).abs() <= 1e-11 * (1.0 + scale), "{name}: {counted} {truth}");
                let found = match Oracle::default().log_partition(&model, &run) {
                    Err(Error::NoAnswer(message)) => {
                        assert!(message.contains("no exact method"), "{message}");
                        continue;
                    }
                    other => other.unwrap(),
                };
                exact += 1;
                let tolerance = 1e-11 * (1.0 + scale);
                assert!((found.value - truth).abs() <= tolerance, "{name}: {found} {truth}");
                let close = |a: &[f64], b: &[f64]| {
                    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() <= 1e2 * tolerance)
                };
                let oracle = Oracle::default();
                let marginals = oracle.marginals(&model, &run).unwrap().value;
                assert!(close(&marginals.values, &list.marginals()), "{name}");
                let gradient = oracle.factor_marginals(&model, &run).unwrap().value;
                assert!(close(&gradient.values, &list.gradient()), "{name}");
                let entropy = oracle.entropy(&model, &run).unwrap().value;
                assert!(close(&[entropy], &[list.entropy()]), "{name}");
                let best = oracle.map(&model, &run).unwrap().value;
                assert!(close(&[best.score], &[list.best()]), "{name}");
                let (ranked, want) = (oracle.k_best(&model, 4, &run).unwrap().value, list.ranked());
                assert_eq!(ranked.len(), want.len().min(4), "{name}");
                for (own, want) in ranked.iter().zip(&want) {
                    assert!(close(&[own.score], &[*want]), "{name}");
                    let y: Vec<u32> = own.state.iter().map(|x| *x as u32).collect();
                    assert!(list.structures.contains(&y), "{name}: {y:?}");
                }
                if scale == 1.0 && seed < 2 {
                    let (law, places) = law(&model);
                    let drawn = oracle.sample(&model, 4000, &run).unwrap().value;
                    assert!(multinomial_tail(&counts(&drawn, &places), &law) > ALARM, "{name}");
                }
            }
        }
    }
    assert!(exact > 300, "{exact}");
    // Linear extensions of two chains of ten items: C(20, 10) orders.
    let chains = (0..9).flat_map(|i| [(i, i + 1), (i + 10, i + 11)]);
    let chains = chains.map(|(i, j)| condition(&format!("before {i} {j}")));
    let space = Restricted::new(Permutations::new(20).unwrap(), chains).unwrap();
    let model = SpaceModel::new(space, Scores::Position(vec![0.0; 400])).unwrap();
    let z = Oracle::default().log_partition(&model, &run).unwrap();
    assert!((z.value - 184_756f64.ln()).abs() < 1e-9, "{z}");
    let impossible = model.restrict([condition("before 5 2")]).unwrap();
    for result in [
        Oracle::default().log_partition(&impossible, &run).map(|_| ()),
        Oracle::default().map(&impossible, &run).map(|_| ()),
        Oracle::default().k_best(&impossible, 2, &run).map(|_| ()),
    ] {
        assert!(matches!(result, Err(Error::ZeroPartition)), "{result:?}");
    }
}

/// An empty list of conditions changes nothing.
#[test]
fn a_restriction_may_be_empty() {
    let run = Run::default();
    for model in small(2, 1.0) {
        let same = model.restrict([]).unwrap();
        assert_eq!(same.space().log_count(), model.space().log_count());
        let oracle = Oracle::default();
        let z = |model| oracle.log_partition(model, &run).unwrap().value;
        assert_eq!(z(&same), z(&model));
        let marginals = |model| oracle.marginals(model, &run).unwrap().value;
        assert_eq!(marginals(&same), marginals(&model));
        let best = |model| oracle.map(model, &run).unwrap().value;
        assert_eq!(best(&same), best(&model));
        let drawn = |model| oracle.sample(model, 50, &run).unwrap().value;
        assert_eq!(drawn(&same), drawn(&model));
    }
}

/// The error of a user function is reported with every query and automatic choice of the method.
#[test]
fn errors_of_user_functions_are_reported() {
    let fails = |_: &[u32]| Err(Error::NoAnswer("the program said no".into()));
    let orders = Permutations::new(30).unwrap();
    let by_score = SpaceModel::new(orders, Scores::closure(fails, 0.0, 1.0)).unwrap();
    let plain = SpaceModel::new(orders, Scores::closure(|_| Ok(0.0), 0.0, 1.0)).unwrap();
    let by_condition =
        plain.restrict([Condition::function(|_| Err(Error::NoAnswer("the program said no".into())))]);
    for model in [by_score, by_condition.unwrap()] {
        let model: Model = model.into();
        for query in [Query::LogPartition, Query::Marginals, Query::Entropy, Query::Map, Query::Sample(3)] {
            let error = answer(&model, query, &Choice::Auto, &Settings::new(), &Run::default()).unwrap_err();
            assert!(error.to_string().contains("the program said no"), "{}: {error}", query.name());
        }
    }
}

#[test]
fn draws_from_restricted_spaces_are_uniform_and_moves_balance() {
    let run = Run::default();
    let clock = run.start("draws");
    for seed in 0..3 {
        for (k, model) in restricted(seed, 1.0).iter().enumerate() {
            let (all, places) = listed(model.structures());
            let space = model.space();
            if let Some(log) = space.log_count() {
                assert!((log - (all.len() as f64).ln()).abs() < 1e-12, "{space:?}");
            }
            let mut random = Streams::new(seed, "restricted draws").block(k as u64);
            let mut tally = vec![0; all.len()];
            let mut structure = vec![0; space.width()];
            for _ in 0..100 * all.len() {
                space.uniform(&mut random, &mut structure, &clock).unwrap();
                tally[places[&structure]] += 1;
            }
            let law = vec![1.0 / all.len() as f64; all.len()];
            assert!(multinomial_tail(&tally, &law) > ALARM, "{space:?}");
            // Metropolis chain of the moves: as many moves from a to b as back, and every structure is
            // reached.
            let mut flows = std::collections::HashMap::new();
            let mut reached = vec![false; all.len()];
            let mut at = all[0].clone();
            let mut step = Step::default();
            for _ in 0..400 * all.len() {
                let from = at.clone();
                step.changes.clear();
                let ratio = space.propose(&mut random, &mut at, &mut step, &clock).unwrap();
                if random.uniform() >= ratio.exp() {
                    step.undo(&mut at);
                }
                let place = |structure: &[u32]| {
                    let mut structure = structure.to_vec();
                    space.canonical(&mut structure);
                    places[&structure]
                };
                let (a, b) = (place(&from), place(&at));
                reached[b] = true;
                if a != b {
                    *flows.entry((a, b)).or_insert(0u64) += 1;
                }
            }
            assert!(reached.iter().all(|x| *x) || all.len() == 1, "{space:?}");
            for (&(a, b), &forth) in &flows {
                let back = flows.get(&(b, a)).copied().unwrap_or(0);
                let total = (forth + back) as f64;
                let radius = (0.5 * (2.0 * flows.len() as f64 / ALARM).ln() / total).sqrt();
                assert!((forth as f64 / total - 0.5).abs() <= radius + 1.0 / total, "{space:?}");
            }
        }
    }
}

/// Guarantees about Z hold although |Y| is estimated as well: an exact binomial test for each method.
#[test]
fn guarantees_hold_for_spaces_of_unknown_size() {
    let run = Run::default();
    run.install(|| ());
    type Method = (&'static str, fn(&SpaceModel, &Run) -> Result<zhat::Estimate>);
    let (error, confidence) = (0.5, 0.75);
    let methods: [Method; 4] = [
        ("importance", |model, run| {
            UniformImportance::default().error(0.5).confidence(0.75).log_partition(model, run)
        }),
        ("tpa", |model, run| TootsiePop::default().error(0.5).confidence(0.75).log_partition(model, run)),
        ("telescoped", |model, run| {
            Telescoped::default().error(0.5).confidence(0.75).log_partition(model, run)
        }),
        ("count", |model, run| log_count(model.space(), 0.5, 0.75, run)),
    ];
    let (mut instances, mut missed, mut wide) = (0, [0; 4], [0; 4]);
    let uncounted = |model: &&SpaceModel| model.spread() < 4.0 && model.space().log_count().is_none();
    for seed in 0..120 {
        for model in restricted(seed, 0.4).iter().filter(uncounted) {
            instances += 1;
            let list = Listed::new(model);
            let (z, count) = (list.log_partition(), (list.structures.len() as f64).ln());
            for (k, (name, method)) in methods.iter().enumerate() {
                let found = method(model, &run.clone().with_seed(seed)).unwrap();
                let truth = if *name == "count" { count } else { z };
                let Guarantee::Bounds { low, high, confidence: promised } = found.guarantee else {
                    panic!("{name} {found}")
                };
                assert_eq!(promised, confidence);
                missed[k] += u64::from(truth < low || truth > high);
                // `tpa` aims at the requested error but does not guarantee it.
                wide[k] += u64::from((found.value - truth).exp_m1().abs() > error && *name != "tpa");
            }
        }
    }
    assert!(instances >= 300, "{instances}");
    for k in 0..4 {
        assert!(binomial_tail(instances, missed[k], 0.25) > ALARM, "{missed:?} of {instances}");
        assert!(binomial_tail(instances, wide[k], 0.25) > ALARM, "{wide:?} of {instances}");
    }
}

#[test]
fn estimates_of_restricted_models_cover_and_are_unbiased() {
    let run = Run::default();
    let confidence = 1.0 - 1e-9;
    for seed in 0..2 {
        for model in restricted(seed, 0.5).iter().filter(|model| model.spread() < 3.0) {
            let list = Listed::new(model);
            let truth = list.log_partition();
            let methods: [&dyn LogPartition<SpaceModel>; 4] = [
                &UniformImportance::default().error(0.5).confidence(confidence),
                &TootsiePop::default().error(0.9).confidence(confidence),
                &Telescoped::default().error(0.9).confidence(confidence),
                &PublishedScheme::default().error(0.9).confidence(0.99999),
            ];
            for method in methods {
                let z = method.log_partition(model, &run).unwrap();
                let Guarantee::Bounds { low, high, .. } = z.guarantee else { panic!("{z}") };
                assert!(low <= truth && truth <= high && low <= z.value && z.value <= high, "{z} {truth}");
            }
            let annealed = AnnealedSampling::default().particles(4).replicates(400).temperatures(3);
            let z = annealed.log_partition(model, &run).unwrap();
            let Guarantee::Unbiased { relative_std_error, low, .. } = z.guarantee else { panic!("{z}") };
            assert!((z.value - truth).exp_m1().abs() <= 6.0 * relative_std_error + 1e-9, "{z} {truth}");
            assert!(low <= truth + 1e-9);
            let best = annealed.map(model, &run).unwrap();
            let Guarantee::Bounds { low, high, .. } = best.guarantee else { panic!() };
            let want = list.best();
            assert!(low <= want && want <= high);
            // Perfect draws by both kinds of rejection.
            for sampler in [Sampler::Auto, Sampler::Meta] {
                let method = PerfectSampling::default().sampler(sampler);
                let (law, places) = law(model);
                let drawn = method.sample(model, 2000, &run).unwrap().value;
                assert!(multinomial_tail(&counts(&drawn, &places), &law) > ALARM, "{model:?}");
            }
        }
    }
}

/// Permutations without fixed points. Only the size of the enclosing space is known.
#[derive(Debug)]
struct Derangements(Permutations);

impl Space for Derangements {
    fn name(&self) -> &'static str {
        "derangements"
    }

    fn width(&self) -> usize {
        self.0.width()
    }

    fn enclosing(&self) -> Option<&dyn Space> {
        Some(&self.0)
    }

    fn check(&self, structure: &[u32]) -> Result<()> {
        self.0.check(structure)?;
        match structure.iter().enumerate().find(|(i, item)| *i == **item as usize) {
            Some((i, _)) => Err(Error::argument("structure", format!("item {i} has kept its place"))),
            None => Ok(()),
        }
    }
}

/// Derangements whose first item is in the upper half; they are drawn by rejection through two enclosing
/// spaces.
#[derive(Debug)]
struct Upper(Derangements);

impl Space for Upper {
    fn name(&self) -> &'static str {
        "upper derangements"
    }

    fn width(&self) -> usize {
        self.0.width()
    }

    fn enclosing(&self) -> Option<&dyn Space> {
        Some(&self.0)
    }

    fn check(&self, structure: &[u32]) -> Result<()> {
        self.0.check(structure)?;
        match structure[0] as usize * 2 >= self.width() {
            true => Ok(()),
            false => Err(Error::argument("structure", format!("it begins with {}", structure[0]))),
        }
    }
}

/// A space that implements neither a sampler nor an enclosing space.
#[derive(Debug)]
struct Unknown;

impl Space for Unknown {
    fn name(&self) -> &'static str {
        "riddles"
    }

    fn width(&self) -> usize {
        1
    }

    fn check(&self, _: &[u32]) -> Result<()> {
        Ok(())
    }
}

#[test]
fn user_defined_spaces() {
    let run = Run::default();
    let six = || Permutations::new(6).unwrap();
    let score = |y: &[u32]| Ok(0.1 * f64::from(y[2]) - 0.2 * f64::from(y[5]));
    for (space, least, number) in [
        (Structures::custom(Derangements(six())), 0, 265),
        (Structures::custom(Upper(Derangements(six()))), 3, 159),
    ] {
        let model = SpaceModel::new(space, Scores::closure(score, -1.0, 0.5)).unwrap();
        let mut all = permutations(&[0, 1, 2, 3, 4, 5]);
        all.retain(|y| y[0] >= least && (0..6).all(|i| y[i as usize] != i));
        assert_eq!(all.len(), number);
        let mut own = enumerated(model.space());
        own.sort_unstable();
        assert_eq!(own, all);
        let list = Listed::of(&model, all);
        let truth = list.log_partition();
        let found = Enumeration::default().log_partition(&model, &run).unwrap();
        assert!(
            (found.value - truth).abs() <= found.diagnostics.rounding + list.allowance,
            "{found} {truth}"
        );
        let found = log_count(model.space(), 0.1, 1.0 - 1e-9, &run).unwrap();
        let Guarantee::Bounds { low, high, .. } = found.guarantee else { panic!("{found}") };
        let want = (number as f64).ln();
        assert!(low <= want && want <= high && high - low < 0.25, "{found}");
        let confidence = 1.0 - 1e-9;
        let methods: [&dyn LogPartition<SpaceModel>; 3] = [
            &UniformImportance::default().error(0.2).confidence(confidence),
            &TootsiePop::default().error(0.5).confidence(confidence),
            &Telescoped::default().error(0.5).confidence(confidence),
        ];
        for method in methods {
            let z = method.log_partition(&model, &run).unwrap();
            let Guarantee::Bounds { low, high, .. } = z.guarantee else { panic!("{z}") };
            assert!(low <= truth && truth <= high, "{z} {truth}");
            let again = method.log_partition(&model, &run.clone().with_threads(1)).unwrap();
            assert_eq!(again.value.to_bits(), z.value.to_bits());
        }
        let drawn = PerfectSampling::default().sample(&model, 20_000, &run).unwrap().value;
        assert!(multinomial_tail(&counts(&drawn, &list.places()), &list.law()) > ALARM);
        // Queries that are not defined for the space are refused with a reason.
        let error = Enumeration::default().marginals(&model, &run).unwrap_err().to_string();
        assert!(error.contains("no table of marginals"), "{error}");
        let error = Oracle::default().k_best(&model, 2, &run).unwrap_err().to_string();
        assert!(error.contains("no exact method"), "{error}");
        assert_eq!(Enumeration::default().k_best(&model, 3, &run).unwrap().value.len(), 3);
    }
    let model = SpaceModel::new(Structures::custom(Unknown), Scores::closure(|_| Ok(0.0), 0.0, 0.0)).unwrap();
    let error = UniformImportance::default().log_partition(&model, &run).unwrap_err().to_string();
    assert!(error.contains("riddles") && error.contains("enclosing"), "{error}");
    assert!(PerfectSampling::default().sample(&model, 1, &run).unwrap_err().to_string().contains("sampler"));
    assert!(Enumeration::default().log_partition(&model, &run).is_err());
}

#[test]
fn conditions_that_fail_or_exclude_every_structure() {
    let run = Run::default();
    let cube = Hypercube::new(4).unwrap();
    let plain = SpaceModel::new(cube, Scores::Unary(vec![0.5; 4])).unwrap();
    let failing = Condition::function(|y| match y[0] {
        1 => Err(Error::NoAnswer("the condition said no".into())),
        _ => Ok(true),
    });
    let model = plain.restrict([failing]).unwrap();
    let methods: [&dyn LogPartition<SpaceModel>; 5] = [
        &Enumeration::default(),
        &UniformImportance::default(),
        &TootsiePop::default(),
        &Telescoped::default(),
        &AnnealedSampling::default(),
    ];
    for method in methods {
        let error = method.log_partition(&model, &run).unwrap_err().to_string();
        assert!(error.contains("the condition said no"), "{error}");
    }
    let empty = plain.restrict([Condition::function(|_| Ok(false))]).unwrap();
    assert!(matches!(Enumeration::default().log_partition(&empty, &run), Err(Error::ZeroPartition)));
    assert!(matches!(Enumeration::default().k_best(&empty, 2, &run), Err(Error::ZeroPartition)));
    for method in [&Telescoped::default() as &dyn LogPartition<SpaceModel>, &UniformImportance::default()] {
        let error = method.log_partition(&empty, &run).unwrap_err().to_string();
        assert!(error.contains("too rare"), "{error}");
    }
    // No structure was found: the lower bound is −∞, the upper bound is finite.
    let few = UniformImportance::default().samples(1 << 11);
    let z = few.log_partition(&empty, &run).unwrap();
    let Guarantee::Bounds { low, high, .. } = z.guarantee else { panic!("{z}") };
    assert!(low == f64::NEG_INFINITY && high.is_finite() && z.value.is_finite(), "{z}");
    let short = Run::default().with_time(Duration::from_millis(1));
    assert!(Telescoped::default().log_partition(&empty, &short).unwrap_err().is_unanswerable());
    // Conditions given as functions cannot be written to a file; the others are written and read back.
    let mut bytes = Vec::new();
    assert!(model_file::write(&Model::from(empty), &mut bytes).is_err());
    for (model, texts) in [
        (&plain, vec!["chosen 2", "size 1 3"]),
        (
            &SpaceModel::new(Partitions::new(3).unwrap(), Scores::links(3, &[]).unwrap()).unwrap(),
            vec!["linked 0 2"],
        ),
        (
            &SpaceModel::new(Cycles::new(4).unwrap(), Scores::links(4, &[]).unwrap()).unwrap(),
            vec!["not linked 0 2", "not chosen 3"],
        ),
        (
            &SpaceModel::new(Permutations::new(3).unwrap(), Scores::Position(vec![0.5; 9])).unwrap(),
            vec!["at 0 1", "not before 2 1"],
        ),
    ] {
        let model: Model = model.restrict(texts.into_iter().map(condition)).unwrap().into();
        assert_eq!(model_file::parse(&model_file::to_bytes(&model), "").unwrap(), model);
    }
}
