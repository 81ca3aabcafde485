//! The rules for the repository itself, checked over its own sources, manifests and README.
//!
//! Each rule is one test, and a failure lists every offender. The tests read the checked-out tree, so
//! they need no lake and no session. The reasons behind the rules are in `STYLE.md`; the picture of
//! the dependency arrows is in `ARCHITECTURE.md`, and [`MEMBERS`] is the same picture as data.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, io};

use datafusion::common::config::ExtensionOptions;
use datafusion_partitioned::PartitionedOptions;

/// The most lines a file may have, its tests not counted.
const MAX_LINES: usize = 800;

/// What every crate of the workspace is called in front of its folder name; also the facade's name.
const FACADE: &str = "datafusion-partitioned";

/// A workspace member: its folder, whether it is published, and where its arrows may point.
struct Member {
    folder: &'static str,
    published: bool,
    /// The other members it may name in its manifest; `None` for all of them. An unpublished one
    /// can be a development dependency of a published one, never a real one.
    may_use: Option<&'static [&'static str]>,
}

const MEMBERS: &[Member] = &[
    published("core", &[]),
    published("connector", &["core"]),
    published("catalog", &["core"]),
    published("dynamic-filter", &["core"]),
    published("table", &["core", "catalog", "connector"]),
    published("catalog-sql", &["core", "catalog", "connector", "table"]),
    published("sql", &["core", "catalog", "connector", "table"]),
    published(
        FACADE,
        &[
            "core",
            "catalog",
            "catalog-sql",
            "connector",
            "dynamic-filter",
            "sql",
            "table",
        ],
    ),
    published("cli", &[FACADE, "test-utils"]),
    unpublished("test-utils", Some(&[FACADE])),
    unpublished("s3-server", Some(&[])),
    unpublished("examples", None),
    unpublished("tests", None),
    unpublished("benches", None),
];

const fn published(folder: &'static str, may_use: &'static [&'static str]) -> Member {
    Member {
        folder,
        published: true,
        may_use: Some(may_use),
    }
}

const fn unpublished(folder: &'static str, may_use: Option<&'static [&'static str]>) -> Member {
    Member {
        folder,
        published: false,
        may_use,
    }
}

// ---- sources ----

#[test]
fn every_source_file_opens_with_module_docs() -> io::Result<()> {
    let offenders = sources()?
        .iter()
        .filter(|file| !file.text.starts_with("//!"))
        .map(|file| file.path.clone())
        .collect();
    assert_none("files that do not open with `//!`", offenders);
    Ok(())
}

#[test]
fn no_source_file_is_longer_than_the_ceiling() -> io::Result<()> {
    let offenders = sources()?
        .iter()
        .filter(|file| !file.is_test())
        .map(|file| (non_test_lines(&file.text), &file.path))
        .filter(|(lines, _)| *lines > MAX_LINES)
        .map(|(lines, path)| format!("{path}: {lines} lines"))
        .collect();
    assert_none(
        &format!("files with more than {MAX_LINES} lines outside tests"),
        offenders,
    );
    Ok(())
}

#[test]
fn no_crate_keeps_placeholders_or_debug_output() -> io::Result<()> {
    let mut offenders = Vec::new();
    for file in crate_sources()? {
        for (number, line) in file.code_lines() {
            for name in ["todo!", "unimplemented!", "dbg!"] {
                if has_token(line, name) {
                    offenders.push(format!("{}:{number}: {name}", file.path));
                }
            }
        }
    }
    assert_none("unfinished or debugging code", offenders);
    Ok(())
}

#[test]
fn lints_are_expected_with_a_reason_and_never_allowed() -> io::Result<()> {
    let mut offenders = Vec::new();
    for file in rust_files("crates")? {
        let mut offset = 0;
        for (index, line) in file.text.split_inclusive('\n').enumerate() {
            let rest = &file.text[offset..];
            offset += line.len();
            if is_comment(line) {
                continue;
            }
            let place = format!("{}:{}", file.path, index + 1);
            if line.contains("#[allow(") || line.contains("#![allow(") {
                offenders.push(format!("{place}: `allow`, use `expect` with a reason"));
            }
            let expectation = line
                .find("#[expect(")
                .or_else(|| line.find("#![expect("))
                .map(|start| &rest[start..]);
            if let Some(attribute) = expectation {
                let end = attribute.find(")]").unwrap_or(attribute.len());
                if !has_token(&attribute[..end], "reason") {
                    offenders.push(format!("{place}: `expect` without a reason"));
                }
            }
        }
    }
    assert_none("lints that are switched off silently", offenders);
    Ok(())
}

#[test]
fn no_snapshot_waits_for_review() -> io::Result<()> {
    let offenders = files_under(&root())?
        .iter()
        .map(|path| relative(path))
        .filter(|path| path.ends_with(".pending-snap") || path.ends_with(".snap.new"))
        .collect();
    assert_none(
        "snapshots that were neither accepted nor rejected",
        offenders,
    );
    Ok(())
}

// ---- manifests ----

#[test]
fn dependencies_point_one_way() -> io::Result<()> {
    let mut offenders = Vec::new();
    for manifest in member_manifests()? {
        let Some(member) = manifest.member() else {
            offenders.push(format!(
                "{}: give it a row in MEMBERS of tidy.rs and a place in ARCHITECTURE.md",
                manifest.path
            ));
            continue;
        };
        for dependency in manifest.dependencies() {
            let Some(used) = short_name(&dependency.name) else {
                continue;
            };
            if member.may_use.is_some_and(|names| !names.contains(&used)) {
                offenders.push(format!("{}: must not use {used}", manifest.path));
            }
            let used_is_published = member_of(used).is_some_and(|member| member.published);
            if member.published && !used_is_published && !dependency.development {
                offenders.push(format!(
                    "{}: may use the unpublished {used} under [dev-dependencies] only",
                    manifest.path
                ));
            }
        }
    }
    assert_none(
        "dependencies against the arrows of ARCHITECTURE.md",
        offenders,
    );
    Ok(())
}

#[test]
fn crates_are_named_after_their_folders() -> io::Result<()> {
    let mut offenders = Vec::new();
    for manifest in member_manifests()? {
        let name = manifest.get("package", "name").unwrap_or_default();
        if short_name(name.trim_matches('"')) != Some(manifest.folder.as_str()) {
            offenders.push(format!("{}: name = {name}", manifest.path));
        }
    }
    assert_none("crates whose name and folder differ", offenders);
    Ok(())
}

#[test]
fn versions_stand_in_the_root_manifest_only() -> io::Result<()> {
    let mut offenders = Vec::new();
    for manifest in member_manifests()? {
        for key in ["version", "edition", "rust-version", "license"] {
            if manifest.get("package", &format!("{key}.workspace")) != Some("true") {
                offenders.push(format!("{}: {key}.workspace = true", manifest.path));
            }
        }
        for dependency in manifest.dependencies() {
            if !dependency.spec.contains("workspace=true") {
                offenders.push(format!(
                    "{}: {}.workspace = true",
                    manifest.path, dependency.name
                ));
            }
        }
    }
    assert_none("lines missing from member manifests", offenders);
    Ok(())
}

#[test]
fn published_crates_take_their_lints_from_the_workspace() -> io::Result<()> {
    let mut offenders = Vec::new();
    for manifest in member_manifests()? {
        let inherits = manifest.get("lints", "workspace") == Some("true");
        let own = manifest.entries.iter().any(|entry| {
            entry.section == "lints.rust" || entry.section.starts_with("lints.clippy")
        });
        if !inherits && (manifest.is_published() || !own) {
            offenders.push(manifest.path);
        }
    }
    assert_none(
        "manifests without `[lints] workspace = true` (unpublished ones may state their own)",
        offenders,
    );
    Ok(())
}

#[test]
fn helper_crates_cannot_be_published() -> io::Result<()> {
    let offenders = member_manifests()?
        .into_iter()
        .filter(|manifest| {
            let member = manifest.member();
            member.is_some_and(|member| member.published != manifest.is_published())
        })
        .map(|manifest| manifest.path)
        .collect();
    assert_none(
        "manifests whose `publish = false` and row in MEMBERS disagree",
        offenders,
    );
    Ok(())
}

// ---- README ----

#[test]
fn readme_mentions_every_example() -> io::Result<()> {
    let readme = read(&root().join("README.md"))?;
    let manifest = Manifest::read("examples")?;
    let declared = manifest
        .entries
        .iter()
        .filter(|entry| entry.section == "example" && entry.key == "name")
        .map(|entry| entry.value.trim_matches('"').to_owned());
    let found = rust_files("examples")?
        .into_iter()
        .filter(|file| !file.path.starts_with("examples/src/") && file.text.contains("fn main("))
        .filter_map(|file| example_name(Path::new(&file.path)));
    let examples: BTreeSet<String> = declared.chain(found).collect();
    assert!(!examples.is_empty(), "no example found under examples/");

    let missing = examples
        .into_iter()
        .filter(|name| !has_token(&readme, name))
        .collect();
    assert_none("examples that README.md does not mention", missing);
    Ok(())
}

#[test]
fn readme_mentions_every_session_option() -> io::Result<()> {
    let readme = read(&root().join("README.md"))?;
    let entries = PartitionedOptions::default().entries();
    assert!(!entries.is_empty(), "PartitionedOptions has no entries");

    let missing = entries
        .iter()
        .map(|entry| option_key(&entry.key))
        .filter(|key| !has_token(&readme, key))
        .collect();
    assert_none("session options that README.md does not mention", missing);
    Ok(())
}

// ---- the checks themselves ----

#[test]
fn lines_of_test_items_are_not_counted() {
    let text = "//! Docs.\nfn a() {}\n\n#[cfg(test)]\nuse x;\n#[cfg(test)]\n#[expect(y)]\nmod tests {\n    \
                fn b() {\n    }\n    const SQL: &str = \"\nSELECT 1;\n\";\n}\nfn c() {}\n";
    assert_eq!(non_test_lines(text), 4);
    assert_eq!(non_test_lines("#[cfg(test)]\nmod tests;\nfn a() {}\n"), 1);
}

#[test]
fn tokens_end_where_names_end() {
    assert!(has_token("run `quickstart`.", "quickstart"));
    assert!(has_token("|partitioned.wait|", "partitioned.wait"));
    assert!(!has_token("partitioned.wait_time", "partitioned.wait"));
    assert!(!has_token(
        "partitioned.wait.max and quickstarts",
        "partitioned.wait"
    ));
    assert!(!has_token("quickstarts", "quickstart"));
    assert!(has_token("    todo!()", "todo!"));
    assert!(!has_token("my_todo!()", "todo!"));
}

#[test]
fn manifests_are_read_in_every_spelling_of_a_dependency() {
    let text = r#"
[package] # a remark
name = "datafusion-partitioned-x"

[dependencies]
a.workspace = true
b = { workspace = true, features = [
    "one", # why
] }
c = "1.0"

[target.'cfg(unix)'.dev-dependencies]
d = { path = "d#1" }

[dev-dependencies.e]
workspace = true
"#;
    let manifest = Manifest {
        path: "x/Cargo.toml".to_owned(),
        folder: "x".to_owned(),
        entries: manifest_entries(text),
    };
    let seen: Vec<_> = manifest
        .dependencies()
        .into_iter()
        .map(|dependency| {
            let inherits = dependency.spec.contains("workspace=true");
            (dependency.name, dependency.development, inherits)
        })
        .collect();
    let expected = [
        ("a", false, true),
        ("b", false, true),
        ("c", false, false),
        ("d", true, false),
        ("e", true, true),
    ];
    assert_eq!(
        seen,
        expected.map(|(name, dev, ok)| (name.to_owned(), dev, ok))
    );
    assert_eq!(
        manifest.get("package", "name"),
        Some("\"datafusion-partitioned-x\"")
    );
}

// ---- helpers ----

fn assert_none(what: &str, mut offenders: Vec<String>) {
    offenders.sort();
    assert!(
        offenders.is_empty(),
        "{what}:\n  {}\n",
        offenders.join("\n  ")
    );
}

/// A Rust file, its path relative to the root and spelled with `/`.
struct Source {
    path: String,
    text: String,
}

impl Source {
    /// Whether all of the file is test code.
    fn is_test(&self) -> bool {
        let inside_tests = self.path.split('/').any(|part| part == "tests");
        inside_tests || self.path.ends_with("/tests.rs")
    }

    fn code_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let numbered = self.text.lines().enumerate();
        numbered
            .filter(|(_, line)| !is_comment(line))
            .map(|(index, line)| (index + 1, line))
    }
}

/// A manifest of a workspace member.
struct Manifest {
    path: String,
    folder: String,
    entries: Vec<Entry>,
}

/// One `key = value` of a manifest. Values that span lines are joined.
struct Entry {
    section: String,
    key: String,
    value: String,
}

/// Everything a manifest says about one dependency of one table, `spec` without white space.
struct Dependency {
    name: String,
    development: bool,
    spec: String,
}

impl Manifest {
    fn read(member: &str) -> io::Result<Self> {
        let path = format!("{member}/Cargo.toml");
        let text = read(&root().join(&path))?;
        Ok(Self {
            folder: member.rsplit('/').next().unwrap_or(member).to_owned(),
            entries: manifest_entries(&text),
            path,
        })
    }

    fn get(&self, section: &str, key: &str) -> Option<&str> {
        let mut entries = self.entries.iter();
        entries
            .find(|entry| entry.section == section && entry.key == key)
            .map(|entry| entry.value.as_str())
    }

    fn member(&self) -> Option<&'static Member> {
        member_of(&self.folder)
    }

    fn is_published(&self) -> bool {
        self.get("package", "publish") != Some("false")
    }

    fn dependencies(&self) -> Vec<Dependency> {
        let mut specs: BTreeMap<(String, bool), String> = BTreeMap::new();
        for entry in &self.entries {
            let Some(start) = entry.section.find("dependencies") else {
                continue;
            };
            let (before, table) = entry.section.split_at(start);
            let (name, attribute) = match table.split_once('.') {
                Some((_, name)) => (name, entry.key.as_str()),
                None => entry.key.split_once('.').unwrap_or((&entry.key, "")),
            };
            let said = format!("{attribute}={};", entry.value);
            specs
                .entry((name.to_owned(), before.ends_with("dev-")))
                .or_default()
                .extend(said.chars().filter(|c| !c.is_whitespace()));
        }
        specs
            .into_iter()
            .map(|((name, development), spec)| Dependency {
                name,
                development,
                spec,
            })
            .collect()
    }
}

fn member_of(folder: &str) -> Option<&'static Member> {
    MEMBERS.iter().find(|member| member.folder == folder)
}

/// The part of TOML that manifests are written in: tables, and keys with a value in `=` form.
fn manifest_entries(text: &str) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut section = String::new();
    let mut value_is_open = false;
    for line in text.lines().map(|line| without_remark(line).trim()) {
        if value_is_open && let Some(last) = entries.last_mut() {
            last.value.push_str(line);
        } else if line.starts_with('[') {
            section = line.trim_matches(['[', ']']).trim().to_owned();
        } else if let Some((key, value)) = line.split_once('=') {
            entries.push(Entry {
                section: section.clone(),
                key: key.trim().to_owned(),
                value: value.trim().to_owned(),
            });
        }
        value_is_open = entries.last().is_some_and(|last| is_open(&last.value));
    }
    entries
}

fn without_remark(line: &str) -> &str {
    let mut quoted = false;
    for (index, c) in line.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '#' if !quoted => return &line[..index],
            _ => {}
        }
    }
    line
}

fn is_open(value: &str) -> bool {
    value.matches(['[', '{']).count() > value.matches([']', '}']).count()
}

/// `core` for `datafusion-partitioned-core`, the whole name for the facade, `None` for other projects.
fn short_name(package: &str) -> Option<&str> {
    match package.strip_prefix(FACADE)? {
        "" => Some(package),
        rest => rest.strip_prefix('-'),
    }
}

/// `entries()` of an extension may leave its prefix out.
fn option_key(key: &str) -> String {
    format!(
        "partitioned.{}",
        key.strip_prefix("partitioned.").unwrap_or(key)
    )
}

/// The name that `cargo run --example` takes for a file with a `main` function.
fn example_name(path: &Path) -> Option<String> {
    let named = if path.file_stem()? == "main" {
        path.parent()?.file_name()?
    } else {
        path.file_stem()?
    };
    Some(named.to_string_lossy().into_owned())
}

/// Whether `text` has `token` where it is not part of a longer name.
fn has_token(text: &str, token: &str) -> bool {
    let in_name = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(token).any(|(start, _)| {
        let before = text[..start].chars().next_back();
        let mut after = text[start + token.len()..].chars();
        let ends = match after.next() {
            Some('.') => !after.next().is_some_and(in_name),
            Some(c) => !in_name(c),
            None => true,
        };
        ends && !before.is_some_and(in_name)
    })
}

fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with("//")
}

/// Counts lines, without the top-level items that follow a `#[cfg(test)]` in formatted source.
fn non_test_lines(text: &str) -> usize {
    let mut count = 0;
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line != "#[cfg(test)]" {
            count += 1;
            continue;
        }
        let is_head_end = |line: &&str| !line.starts_with(' ') && line.ends_with(['{', '}', ';']);
        let head = lines.find(is_head_end);
        if head.is_some_and(|line| line.ends_with('{')) {
            lines.find(|line| line.starts_with('}'));
        }
    }
    count
}

/// Every file that the rules for sources are about.
fn sources() -> io::Result<Vec<Source>> {
    let mut files = crate_sources()?;
    for member in ["examples", "tests", "benches"] {
        files.extend(rust_files(member)?);
    }
    Ok(files)
}

fn crate_sources() -> io::Result<Vec<Source>> {
    let mut files = Vec::new();
    for member in crate_folders()? {
        files.extend(rust_files(&format!("{member}/src"))?);
    }
    Ok(files)
}

fn member_manifests() -> io::Result<Vec<Manifest>> {
    let mut members = crate_folders()?;
    members.extend(["examples", "tests", "benches"].map(str::to_owned));
    members
        .iter()
        .map(|member| Manifest::read(member))
        .collect()
}

/// The folders of the crates, such as `crates/core`.
fn crate_folders() -> io::Result<Vec<String>> {
    let mut folders = Vec::new();
    for entry in fs::read_dir(root().join("crates"))? {
        let path = entry?.path();
        if path.join("Cargo.toml").is_file() {
            folders.push(relative(&path));
        }
    }
    assert!(!folders.is_empty(), "no crate found under crates/");
    folders.sort();
    Ok(folders)
}

fn rust_files(folder: &str) -> io::Result<Vec<Source>> {
    let mut files = Vec::new();
    for path in files_under(&root().join(folder))? {
        if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(Source {
                path: relative(&path),
                text: read(&path)?,
            });
        }
    }
    assert!(!files.is_empty(), "no Rust file found under {folder}/");
    Ok(files)
}

/// All files below a folder, without build output and the folders of version control.
fn files_under(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let entries = fs::read_dir(folder).map_err(|error| with_path(folder, &error))?;
    for entry in entries {
        let entry = entry?;
        let path = entry.path();
        let is_folder = entry.file_type()?.is_dir();
        if !is_folder {
            files.push(path);
        } else if entry.file_name() != "target" && entry.file_name() != ".git" {
            files.extend(files_under(&path)?);
        }
    }
    Ok(files)
}

fn read(path: &Path) -> io::Result<String> {
    fs::read_to_string(path).map_err(|error| with_path(path, &error))
}

fn with_path(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", relative(path)))
}

fn relative(path: &Path) -> String {
    let root = root();
    let inside = path.strip_prefix(&root).unwrap_or(path);
    inside.to_string_lossy().replace('\\', "/")
}

fn root() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().unwrap_or(tests).to_path_buf()
}
