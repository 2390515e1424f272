//! What packages and releases are made from agrees with itself; `.ci/package` and `.ci/crate` make and try them, which
//! takes too long for each run.

use std::path::Path;
use std::process::Command;

use toml::{Table, Value};

use crate::layers::RUNTIMES;

fn read(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn table(file: &str) -> Table {
    read(file).parse().unwrap()
}

/// Returns the value at a path of keys.
#[track_caller]
fn at<'a>(table: &'a Table, keys: &str) -> &'a Value {
    let mut keys_left = keys.split('.');
    let first = keys_left.next().and_then(|key| table.get(key));
    keys_left
        .fold(first, |value, key| value?.get(key))
        .unwrap_or_else(|| panic!("there is no {keys}"))
}

fn texts(value: &Value) -> Vec<&str> {
    let values = value.as_array().unwrap();
    values.iter().map(|value| value.as_str().unwrap()).collect()
}

#[track_caller]
fn output(program: &str, args: &[&str]) -> String {
    let output = Command::new(program)
        .args(args)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{program} {args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_scripts_are_well_formed() {
    for script in ["crate", "fuzz", "package", "run", "steps"] {
        output("bash", &["-n", &format!(".ci/{script}")]);
    }
}

#[test]
fn the_wheel_is_named_and_built_as_the_crate() {
    let (wheel, manifest) = (table("pyproject.toml"), table("Cargo.toml"));
    for key in ["name", "description", "readme", "license", "keywords"] {
        let (wheel_has, crate_has) = (format!("project.{key}"), format!("package.{key}"));
        assert_eq!(at(&wheel, &wheel_has), at(&manifest, &crate_has), "{key}");
    }
    // The one of Cargo.toml.
    assert_eq!(texts(at(&wheel, "project.dynamic")), ["version"]);
    assert_eq!(at(&wheel, "tool.maturin.bindings").as_str(), Some("bin"));
    let profile = at(&wheel, "tool.maturin.profile").as_str().unwrap();
    assert!(at(&manifest, "profile").get(profile).is_some());
}

#[test]
fn the_files_of_the_debian_package_exist_or_are_made() {
    let (manifest, script) = (table("Cargo.toml"), read(".ci/package"));
    let assets = at(&manifest, "package.metadata.deb.assets");
    for asset in assets.as_array().unwrap() {
        let source = texts(asset)[0];
        let (directory, name) = source.rsplit_once('/').unwrap_or((".", source));
        if directory.starts_with("target/packaging") {
            let is_made = |part: &str| script.contains(part);
            assert!(
                is_made(name) || directory.split('/').next_back().is_some_and(is_made),
                "nothing makes {source}"
            );
            continue;
        }
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join(directory);
        let mut names = std::fs::read_dir(&directory).unwrap();
        let end = name.trim_start_matches('*');
        assert!(
            names.any(|entry| entry.unwrap().file_name().to_string_lossy().ends_with(end)),
            "there is no {source}"
        );
    }
}

#[test]
fn a_release_is_what_the_script_makes() {
    let workflow = read(".github/workflows/release.yml");
    let commands: Vec<&str> = workflow
        .lines()
        .filter_map(|line| line.trim().trim_start_matches("- ").strip_prefix("run:"))
        .collect();
    assert!(!commands.is_empty(), "{workflow}");
    for command in commands {
        let first = command.split_whitespace().next();
        assert_eq!(first, Some(".ci/package"), "{workflow}");
    }

    let manifest = table("Cargo.toml");
    let binstall = |key: &str| {
        let value = at(&manifest, &format!("package.metadata.binstall.{key}"));
        value.as_str().unwrap()
    };
    assert!(binstall("pkg-url").ends_with("/v{ version }/{ name }-{ version }-{ target }.tar.gz"));
    assert_eq!(
        binstall("bin-dir"),
        "{ name }-{ version }-{ target }/bin/{ bin }"
    );
    let script = read(".ci/package");
    assert!(
        script.contains("name=\"td-observe-$version-$target\""),
        "{script}"
    );
    assert!(script.contains("\"$packages/$name.tar.gz\""), "{script}");
}

#[test]
fn runtimes_and_unknown_licences_are_refused() {
    let deny = table("deny.toml");
    let banned = texts(at(&deny, "bans.deny"));
    for runtime in RUNTIMES {
        assert!(banned.contains(runtime), "deny.toml allows {runtime}");
    }
    let allowed = texts(at(&deny, "licenses.allow"));
    let is_allowed = |licence: &str| {
        licence.split(" AND ").all(|part| {
            part.trim_matches(['(', ')'])
                .replace('/', " OR ")
                .split(" OR ")
                .any(|choice| allowed.contains(&choice.trim()))
        })
    };
    let format = ["--prefix", "none", "--format", "{p}: {l}"];
    let tree = ["tree", "--edges", "normal,build", "--all-features"];
    let packages = output(env!("CARGO"), &[&tree[..], &format].concat());
    for package in packages.lines() {
        let (_, licence) = package.split_once(": ").unwrap();
        let licence = licence.trim_end_matches(" (*)");
        assert!(is_allowed(licence), "deny.toml refuses {package}");
    }
}

#[test]
fn the_published_crate_is_the_library_and_its_documents() {
    let files = output(env!("CARGO"), &["package", "--list", "--allow-dirty"]);
    let is_expected = |file: &str| {
        let made = ["Cargo.toml.orig", ".cargo_vcs_info.json"];
        let documents = [
            "CHANGELOG.md",
            "Cargo.lock",
            "Cargo.toml",
            "LICENSE",
            "README.md",
        ];
        file.starts_with("src/")
            || file == "tests/it/embed.rs"
            || made.contains(&file)
            || documents.contains(&file)
    };
    let strangers: Vec<&str> = files.lines().filter(|file| !is_expected(file)).collect();
    assert!(strangers.is_empty(), "{strangers:#?}");
    assert!(files.contains("src/main.rs") && files.contains("tests/it/embed.rs"));
}
