package operation

import (
	"encoding/json"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// jsonFormat returns the JSON format for the library. The library joins the parts of a path with dots and brackets, so
// it misreads keys that contain them. In a body that is decoded for validation, keys are therefore escaped like in a
// JSON pointer, with ~2, ~3 and ~4 for a dot and brackets.
func jsonFormat() huma.Format {
	f := huma.DefaultJSONFormat
	f.Unmarshal = func(raw []byte, v any) error {
		if err := json.Unmarshal(raw, v); err != nil {
			return err
		}
		if parsed, ok := v.(*any); ok {
			*parsed = escapeKeys(*parsed)
		}
		return nil
	}
	return f
}

func escapeKeys(v any) any {
	switch v := v.(type) {
	case map[string]any:
		named := make(map[string]any, len(v))
		escapes := strings.NewReplacer("~", "~0", "/", "~1", ".", "~2", "[", "~3", "]", "~4")
		for k, element := range v {
			named[escapes.Replace(k)] = escapeKeys(element)
		}
		return named
	case []any:
		for i, element := range v {
			v[i] = escapeKeys(element)
		}
	}
	return v
}

// pointer converts a location of the library: body.listeners[0].port becomes /listeners/0/port, query.limit
// query/limit.
func pointer(location string) string {
	rest, inBody := strings.CutPrefix(location, "body")
	if !inBody {
		return strings.Replace(location, ".", "/", 1)
	}
	return strings.NewReplacer(".", "/", "[", "/", "]", "", "~2", ".", "~3", "[", "~4", "]").Replace(rest)
}
