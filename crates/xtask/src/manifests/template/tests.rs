//! What Go's templates and Helm's functions make of these is known.

use serde_json::{Value, json};

use super::Templates;

fn render(text: &str, values: Value) -> anyhow::Result<String> {
    let mut templates = Templates::default();
    templates.add("t", text)?;
    templates.render("t", &values)
}

#[test]
fn what_it_makes_of_templates_is_what_helm_makes_of_them() {
    let values = json!({
        "a": {"b": "x", "n": 3, "yes": true, "none": "", "list": ["p", "q"], "empty": [], "map": {"k": "v"}},
    });
    for (text, expected) in [
        ("plain }} text", "plain }} text"),
        ("{{ .a.b }}-{{.a.n}}", "x-3"),
        ("a \n{{- .a.b -}}\n c", "axc"),
        ("a {{ .a.b -}} \n c", "a xc"),
        ("a\n{{- /* nothing }} here */ -}}\nb", "ab"),
        ("{{/* nothing */}}b", "b"),
        ("{{ if .a.yes }}1{{ else }}2{{ end }}", "1"),
        (
            "{{ if .a.none }}1{{ else if eq .a.n 3 }}3{{ else }}2{{ end }}",
            "3",
        ),
        ("{{ if not .a.none }}1{{ end }}", "1"),
        (
            "{{ if and .a.yes (eq .a.b \"y\") }}1{{ else }}2{{ end }}",
            "2",
        ),
        ("{{ if or .a.none .a.empty }}1{{ else }}2{{ end }}", "2"),
        (
            "{{ range .a.list }}<{{ . }}{{ $.a.b }}>{{ end }}",
            "<px><qx>",
        ),
        ("{{ range .a.empty }}1{{ else }}2{{ end }}", "2"),
        (
            "{{ with .a.map }}{{ .k }}{{ end }}{{ with .a.none }}1{{ end }}",
            "v",
        ),
        ("{{ .a.none | default .a.b | quote }}", "\"x\""),
        (
            "{{ quote .a.n }} {{ quote \"a\\\"b\" }}",
            "\"3\" \"a\\\"b\"",
        ),
        ("m:{{ toYaml .a.map | nindent 2 }}", "m:\n  k: v"),
        ("{{ \"a\nb\" | nindent 1 }}", "\n a\n b"),
        ("{{ \"{{\" }}x}}", "{{x}}"),
        (
            "{{ define \"d\" }}<{{ .b }}>{{ end }}{{ include \"d\" .a }}",
            "<x>",
        ),
        (
            "{{ define \"d\" }}{{ $.b }}{{ end }}{{ include \"d\" .a | quote }}",
            "\"x\"",
        ),
    ] {
        // A line feed in a string is written so in JSON, and in Go.
        let text = text.replace("\"a\nb\"", "\"a\\nb\"");
        assert_eq!(render(&text, values.clone()).unwrap(), expected, "{text}");
    }
}

#[test]
fn what_is_not_known_is_refused() {
    for (text, why) in [
        ("{{ .a.c }}", "there is no .a.c"),
        ("{{ .a }}", "cannot be written"),
        ("{{ $x := 1 }}", "variables"),
        ("{{ upper .a.b }}", "not known here"),
        ("{{ if .a }}", "has no end"),
        ("{{ end }}", "of nothing"),
        ("{{ .a", "has no end"),
        ("{{ template \"x\" }}", "not known"),
        ("{{ include \"x\" . }}", "not defined"),
        ("{{ (.a).b }}", "parentheses"),
        ("{{ }}", "nothing is asked for"),
        ("{{ .a | }}", "nothing is asked for"),
    ] {
        let refused = render(text, json!({"a": {"b": "x"}})).unwrap_err();
        assert!(format!("{refused:#}").contains(why), "{text}: {refused:#}");
    }
}
