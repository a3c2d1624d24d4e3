//! Sizes of forecasts against those of models.

use super::super::forecast::Sizes;
use super::super::group::Counts;
use super::super::*;
use super::{FAMILIES, random_case};
use crate::random::Streams;

#[test]
fn sizes_are_those_of_the_parts() {
    let mut random = Streams::new(5, "hmm sizes").block(0);
    for case in 0..40 {
        let family = FAMILIES[case % FAMILIES.len()];
        let (mut hmm, _) = random_case(family, false, &mut random);
        let mut longest = 0;
        if case % 3 == 0 {
            longest = 4;
            let table = vec![0.25; hmm.states() * longest];
            hmm = hmm.clone().with_durations(Durations::free(hmm.states(), table).unwrap()).unwrap();
        }
        let sizes = Sizes::new(family, hmm.states(), hmm.columns(), longest);
        let part = hmm.emissions.part();
        assert_eq!(sizes.statistics, part.statistics(), "{family:?}");
        let parameters: usize = part.tensors().iter().map(|tensor| tensor.to_f64().len()).sum();
        assert_eq!(sizes.emissions, parameters, "{family:?}");
        let counts: usize = Counts::new(&hmm).parts().iter().map(|part| part.len()).sum();
        assert_eq!(sizes.counts(), counts, "{family:?}");
        assert_eq!(Sizes::of(&hmm).counts(), counts, "{family:?}");
    }
}
