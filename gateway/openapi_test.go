package gateway

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/splashdam/splashdam/shared/mqerr"
)

func readOpenAPI(t *testing.T) map[string]any {
	t.Helper()
	b, err := OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(b, &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

// Every route is described, and nothing else is.
func TestOpenAPIDescribesTheRoutes(t *testing.T) {
	var routes, described []string
	param := regexp.MustCompile(`:(\w+)`)
	for _, r := range (&Gateway{}).routes() {
		routes = append(routes, r.method+" "+param.ReplaceAllString(r.path, "{$1}"))
	}
	methods := []string{"get", "put", "post", "delete", "patch", "head", "options"}
	ids := map[string]string{}
	for path, item := range readOpenAPI(t)["paths"].(map[string]any) {
		for method, op := range item.(map[string]any) {
			if !slices.Contains(methods, method) {
				continue
			}
			name := strings.ToUpper(method) + " " + path
			described = append(described, name)
			id, _ := op.(map[string]any)["operationId"].(string)
			if other, twice := ids[id]; id == "" || twice {
				t.Errorf("%s has the operationId %q, as has %s", name, id, other)
			}
			ids[id] = name
		}
	}
	slices.Sort(routes)
	slices.Sort(described)
	for _, r := range routes {
		if !slices.Contains(described, r) {
			t.Errorf("%s is not described", r)
		}
	}
	for _, d := range described {
		if !slices.Contains(routes, d) {
			t.Errorf("%s is described and does not exist", d)
		}
	}
}

// Every $ref leads somewhere, and every path parameter is declared.
func TestOpenAPIReferences(t *testing.T) {
	doc := readOpenAPI(t)
	var walk func(v any, at string)
	walk = func(v any, at string) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				walk(e, at+"/[]")
			}
		case map[string]any:
			if ref, ok := v["$ref"].(string); ok && lookUp(doc, ref) == nil {
				t.Errorf("%s refers to %s, which is not there", at, ref)
			}
			for name, e := range v {
				walk(e, at+"/"+name)
			}
		}
	}
	walk(doc, "")
	for path, item := range doc["paths"].(map[string]any) {
		declared := map[string]bool{}
		params, _ := item.(map[string]any)["parameters"].([]any)
		for _, p := range params {
			object := lookUp(doc, p.(map[string]any)["$ref"].(string)).(map[string]any)
			declared[object["name"].(string)] = true
		}
		for _, m := range regexp.MustCompile(`\{(\w+)\}`).FindAllStringSubmatch(path, -1) {
			if !declared[m[1]] {
				t.Errorf("%s does not declare %s", path, m[1])
			}
		}
	}
}

func lookUp(doc map[string]any, ref string) any {
	var at any = doc
	for name := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
		object, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = object[name]
	}
	return at
}

// The document's list of codes is the table's.
func TestOpenAPICodes(t *testing.T) {
	var want, got []string
	for _, c := range mqerr.Codes() {
		want = append(want, c.String())
	}
	for _, c := range lookUp(readOpenAPI(t), "#/components/schemas/Code").(map[string]any)["enum"].([]any) {
		got = append(got, c.(string))
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}
