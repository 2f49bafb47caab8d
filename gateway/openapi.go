package gateway

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"

	"github.com/labstack/echo/v4"
)

// openapiFiles are the parts of the OpenAPI 3.1 document, each an object of its own, written by hand. A test
// checks that they describe exactly the routes that there are.
//
//go:embed openapi/*.json
var openapiFiles embed.FS

// OpenAPI is the document that /openapi.json answers. It is put together each time, in about a
// millisecond: it is asked for by tools, not by clients.
func OpenAPI() ([]byte, error) {
	whole := map[string]any{}
	names, err := fs.Glob(openapiFiles, "openapi/*.json")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		b, err := openapiFiles.ReadFile(name)
		if err != nil {
			return nil, err
		}
		var part map[string]any
		if err := json.Unmarshal(b, &part); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if err := joinObjects(whole, part, name); err != nil {
			return nil, err
		}
	}
	return json.MarshalIndent(whole, "", " ")
}

// joinObjects adds part to whole, objects within objects; nothing may be said twice.
func joinObjects(whole, part map[string]any, where string) error {
	for name, v := range part {
		have, ok := whole[name]
		if !ok {
			whole[name] = v
			continue
		}
		a, aok := have.(map[string]any)
		b, bok := v.(map[string]any)
		if !aok || !bok {
			return fmt.Errorf("%s/%s is in two parts of the document", where, name)
		}
		if err := joinObjects(a, b, where+"/"+name); err != nil {
			return err
		}
	}
	return nil
}

// handleOpenAPI answers the document.
func (g *Gateway) handleOpenAPI(c echo.Context) error {
	doc, err := OpenAPI()
	if err != nil {
		return err
	}
	return c.Blob(http.StatusOK, echo.MIMEApplicationJSON, doc)
}
