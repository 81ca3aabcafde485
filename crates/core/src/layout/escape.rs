//! The escapes within directory names, those of Apache Hive (`FileUtils.escapePathName`), which Spark
//! and Flink share:
//!
//! | | rule |
//! |---|---|
//! | written | control characters, DEL and `" # % ' * / : = ? \ { [ ] ^` become `%XX`, upper case, in names and values |
//! | read | any `%XX`, either case, exactly once; a broken escape (`%`, `%2`, `%zz`) stays as it is |
//! | read | bytes that are not UTF-8 after decoding leave the whole text as it was |
//! | read | `+` is a plus sign |

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// Escapes a name or value for use as a path segment, by Hive's rules.
///
/// ```
/// # use datafusion_partitioned_core::escape_path_name;
/// assert_eq!(escape_path_name("50%/a=b c"), "50%25%2Fa%3Db c");
/// ```
pub fn escape_path_name(text: &str) -> Cow<'_, str> {
    if !text.chars().any(needs_escape) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if needs_escape(c) {
            // All characters that need an escape are ASCII.
            escaped.push_str(&format!("%{:02X}", u32::from(c)));
        } else {
            escaped.push(c);
        }
    }
    Cow::Owned(escaped)
}

/// Decodes each `%XX` once. Broken escapes, and escapes that do not decode to UTF-8, are kept.
///
/// ```
/// # use datafusion_partitioned_core::unescape_path_name;
/// assert_eq!(unescape_path_name("a%252Fb%2fc%zz"), "a%2Fb/c%zz");
/// ```
pub fn unescape_path_name(text: &str) -> Cow<'_, str> {
    percent_decode_str(text)
        .decode_utf8()
        .unwrap_or(Cow::Borrowed(text))
}

fn needs_escape(c: char) -> bool {
    c.is_ascii_control()
        || matches!(
            c,
            '"' | '#' | '%' | '\'' | '*' | '/' | ':' | '=' | '?' | '\\' | '{' | '[' | ']' | '^'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_exactly_the_characters_of_hive() {
        let escaped: String = (0..=0x7f_u8)
            .map(char::from)
            .filter(|c| needs_escape(*c) && !c.is_ascii_control())
            .collect();
        assert_eq!(escaped, "\"#%'*/:=?[\\]^{");
        assert_eq!(escape_path_name("\u{1}\u{7f}"), "%01%7F");
        assert_eq!(escape_path_name("a b}~Łódź"), "a b}~Łódź");
    }
}
