//! Tables over several variables, in row-major order.

/// The row-major strides of a table with these axis lengths.
pub(crate) fn strides(lengths: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; lengths.len()];
    for axis in (1..lengths.len()).rev() {
        strides[axis - 1] = strides[axis] * lengths[axis];
    }
    strides
}

/// Π lengths, `None` on overflow.
pub(crate) fn size(lengths: impl IntoIterator<Item = usize>) -> Option<usize> {
    lengths.into_iter().try_fold(1usize, |size, length| size.checked_mul(length))
}

/// A variable that occurs twice in a scope, if there is one.
pub(crate) fn first_repeated(scope: &[usize]) -> Option<usize> {
    if scope.len() <= 16 {
        return (1..scope.len()).find(|&i| scope[..i].contains(&scope[i])).map(|i| scope[i]);
    }
    let mut sorted = scope.to_vec();
    sorted.sort_unstable();
    sorted.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}

/// Advances `digits` to the next state in row-major order; after the last state, returns false with all
/// digits zero.
pub(crate) fn advance(digits: &mut [usize], lengths: &[usize]) -> bool {
    for (digit, &length) in digits.iter_mut().zip(lengths).rev() {
        *digit += 1;
        if *digit < length {
            return true;
        }
        *digit = 0;
    }
    false
}

/// The sub-table with only the states `keep[axis]` on every axis, in that order.
pub(crate) fn select(values: &[f64], lengths: &[usize], keep: &[&[usize]]) -> Vec<f64> {
    places(lengths, keep).into_iter().map(|place| values[place]).collect()
}

/// The positions of the entries of that sub-table in the whole table, in the order of the sub-table.
pub(crate) fn places(lengths: &[usize], keep: &[&[usize]]) -> Vec<usize> {
    let steps = |(states, stride): (&&[usize], usize)| states.iter().map(|&s| s * stride).collect();
    sums(0, keep.iter().zip(strides(lengths)).map(steps))
}

/// The table with its axes in another order: new axis i is old axis `order[i]`.
pub(crate) fn permute(values: &[f64], lengths: &[usize], order: &[usize]) -> Vec<f64> {
    let strides = strides(lengths);
    let steps = |&axis: &usize| (0..lengths[axis]).map(|s| s * strides[axis]).collect();
    sums(0, order.iter().map(steps)).into_iter().map(|place| values[place]).collect()
}

/// `start` plus one number from each list, for all combinations; the last list varies fastest.
pub(crate) fn sums(start: usize, lists: impl IntoIterator<Item = Vec<usize>>) -> Vec<usize> {
    let mut sums = vec![start];
    for list in lists {
        let mut next = Vec::with_capacity(sums.len() * list.len());
        sums.iter().for_each(|sum| next.extend(list.iter().map(|step| sum + step)));
        sums = next;
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permuting_moves_every_entry_to_its_place() {
        let values: Vec<f64> = (0..24).map(f64::from).collect();
        let moved = permute(&values, &[2, 3, 4], &[2, 0, 1]);
        for (i, j, k) in (0..2).flat_map(|i| (0..3).flat_map(move |j| (0..4).map(move |k| (i, j, k)))) {
            assert_eq!(moved[k * 6 + i * 3 + j], values[i * 12 + j * 4 + k]);
        }
    }

    #[test]
    fn selecting_keeps_order_and_axes() {
        let values: Vec<f64> = (0..6).map(f64::from).collect();
        assert_eq!(select(&values, &[2, 3], &[&[1], &[2, 0]]), [5.0, 3.0]);
        assert_eq!(select(&[7.0], &[], &[]), [7.0]);
    }

    #[test]
    fn advancing_visits_every_state_once() {
        let (lengths, mut digits, mut count) = ([2, 1, 3], [0; 3], 1);
        while advance(&mut digits, &lengths) {
            count += 1;
        }
        assert_eq!((count, digits), (6, [0; 3]));
        assert!(!advance(&mut [], &[]));
    }

    #[test]
    fn overflowing_sizes_are_none() {
        assert_eq!(size([usize::MAX, 2]), None);
        assert_eq!(size([]), Some(1));
    }
}
