//! Phrases of error messages that point from a misspelt name to the ones that exist.

use datafusion::common::utils::datafusion_strsim::normalized_levenshtein;

/// Names less alike than this are not worth suggesting (0 = nothing in common, 1 = equal).
const MIN_SIMILARITY: f64 = 0.6;

/// ` (did you mean 'x'?)` if one of the candidates resembles the name, else nothing.
pub fn did_you_mean<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    let name = name.to_lowercase();
    candidates
        .into_iter()
        .map(|candidate| {
            let similarity = similarity(&name, &candidate.to_lowercase());
            (similarity, candidate)
        })
        .filter(|(similarity, _)| *similarity >= MIN_SIMILARITY)
        .max_by(|(left, _), (right, _)| left.total_cmp(right))
        .map_or_else(String::new, |(_, candidate)| {
            format!(" (did you mean '{candidate}'?)")
        })
}

/// How alike two names are, of which one may have two letters in each other's place.
fn similarity(name: &str, candidate: &str) -> f64 {
    let letters: Vec<char> = name.chars().collect();
    let is_swapped = (1..letters.len()).any(|index| {
        let mut letters = letters.clone();
        letters.swap(index - 1, index);
        candidate.chars().eq(letters)
    });
    match is_swapped {
        true => 1.0 - 1.0 / letters.len() as f64,
        false => normalized_levenshtein(name, candidate),
    }
}

/// `'a', 'b'`, or `none`.
pub fn quoted_list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names = names
        .into_iter()
        .map(|name| format!("'{name}'"))
        .collect::<Vec<_>>();
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggests_the_most_similar_name_in_any_case() {
        let known = ["file", "filesystem", "memory"];
        assert_eq!(
            did_you_mean("FileSytem", known),
            " (did you mean 'filesystem'?)"
        );
        assert_eq!(did_you_mean("kafka", known), "");
        assert_eq!(did_you_mean("dya", ["day"]), " (did you mean 'day'?)");
    }

    #[test]
    fn lists_are_quoted() {
        assert_eq!(quoted_list(["a", "b"]), "'a', 'b'");
        assert_eq!(quoted_list([]), "none");
    }
}
