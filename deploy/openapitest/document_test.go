package openapitest

import (
	"testing"

	validator "github.com/pb33f/libopenapi-validator"
)

// The document is valid by the OpenAPI 3.1 schema, and all of it can be resolved.
func TestDocumentIsValid(t *testing.T) {
	doc, err := Document()
	if err != nil {
		t.Fatal(err)
	}
	model, err := doc.BuildV3Model()
	if err != nil {
		t.Fatal(err)
	}
	if n := model.Model.Paths.PathItems.Len(); n < 15 {
		t.Errorf("%d paths", n)
	}
	v, errs := validator.NewValidator(doc)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if ok, errs := v.ValidateDocument(); !ok {
		for _, e := range errs {
			t.Errorf("%s: %s", e.Message, e.Reason)
			for _, s := range e.SchemaValidationErrors {
				t.Errorf("  %s at %s", s.Reason, s.FieldPath)
			}
		}
	}
}
