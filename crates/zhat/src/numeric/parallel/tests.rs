use super::prelude::*;
use super::*;

fn in_threads(threads: usize, work: impl FnOnce() + Send) {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(work);
}

#[test]
fn loops_agree_with_iterators() {
    for threads in [1, 2, 5] {
        in_threads(threads, || {
            for n in [0, 1, 2, 7, 100, 1001] {
                let numbers: Vec<usize> = (3..n + 3).into_par_iter().map(|i| i * i).collect();
                assert_eq!(numbers, (3..n + 3).map(|i| i * i).collect::<Vec<_>>());
                let mut doubled = vec![0; n];
                doubled.par_iter_mut().zip(&numbers).for_each(|(out, &x)| *out = 2 * x);
                assert!(doubled.iter().zip(&numbers).all(|(&out, &x)| out == 2 * x));
                for size in [1, 3, 1000] {
                    let sums: Vec<usize> = numbers.par_chunks(size).map(|x| x.iter().sum()).collect();
                    assert_eq!(sums, numbers.chunks(size).map(|x| x.iter().sum()).collect::<Vec<usize>>());
                    let exact: Vec<usize> = numbers.par_chunks_exact(size).map(<[usize]>::len).collect();
                    assert_eq!(exact, vec![size; n / size]);
                    let mut marks = vec![0; n];
                    marks.par_chunks_mut(size).enumerate().for_each(|(i, piece)| piece.fill(i));
                    assert!(marks.iter().enumerate().all(|(i, &mark)| mark == i / size));
                    let mut marks = vec![0; n];
                    marks.par_chunks_exact_mut(size).for_each(|piece| piece.fill(1));
                    assert_eq!(marks.iter().sum::<usize>(), n / size * size);
                }
                let strings: Vec<String> = numbers.iter().map(ToString::to_string).collect();
                let lengths: Vec<usize> = strings.into_par_iter().with_max_len(1).map(|s| s.len()).collect();
                assert_eq!(
                    lengths.iter().sum::<usize>(),
                    numbers.iter().map(|i| i.to_string().len()).sum::<usize>()
                );
                let joined = (0..n).into_par_iter().map(|i| vec![i]).reduce(Vec::new, |mut a, b| {
                    a.extend(b);
                    a
                });
                assert_eq!(joined, (0..n).collect::<Vec<_>>());
            }
        });
    }
}

#[test]
fn errors_stop_a_loop_and_what_is_left_is_dropped() {
    let counted = std::sync::Arc::new(());
    in_threads(3, || {
        let items = vec![counted.clone(); 1000];
        let found: Result<Vec<usize>, usize> =
            items.into_par_iter().enumerate().map(|(i, _)| if i == 10 { Err(i) } else { Ok(i) }).collect();
        assert_eq!(found, Err(10));
        let found = (0..1000usize).into_par_iter().try_for_each(|i| if i % 7 == 6 { Err(i) } else { Ok(()) });
        assert!(found.is_err_and(|i| i % 7 == 6));
        let none: Option<Vec<usize>> = (0..9usize).into_par_iter().map(|i| (i != 4).then_some(i)).collect();
        assert_eq!(none, None);
        let all =
            (0..9usize).into_par_iter().map_init(|| 1, |one, i| Some(i + *one)).collect::<Option<Vec<_>>>();
        assert_eq!(all, Some((1..10).collect()));
    });
    assert_eq!(std::sync::Arc::strong_count(&counted), 1);
}

#[test]
fn ranges_are_disjoint_and_of_the_given_lengths() {
    in_threads(4, || {
        for (n, least, most) in [(1000, 1, 1), (1000, 100, usize::MAX), (17, 1, 4), (5, 10, usize::MAX)] {
            let seen: Vec<_> = (0..n).map(|_| AtomicBool::new(false)).collect();
            over(n, least, most, &|range| {
                assert!(range.len() >= least.min(n) && (range.len() <= most || range.len() < 2 * least));
                range.for_each(|i| assert!(!seen[i].swap(true, Ordering::Relaxed)));
            });
            assert!(seen.iter().all(|seen| seen.load(Ordering::Relaxed)));
        }
    });
}
