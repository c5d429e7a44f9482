package annotation

import "testing"

func TestJSONOf(t *testing.T) {
	texts := Type{Type: JSON, Values: []string{jsonObject}, Of: &Type{Type: Text}}
	groups := Type{Type: JSON, Values: []string{jsonObject}, Of: &texts}
	tests := map[string]struct {
		typ   Type
		value string
		good  bool
	}{
		"texts":             {texts, `{"a": "1", "b": ""}`, true},
		"null for a text":   {texts, `{"a": null}`, true},
		"number for a text": {texts, `{"a": 1}`, false},
		"array":             {texts, `["a"]`, false},
		"groups":            {groups, `{"a": {"b": "1"}}`, true},
		"text for a group":  {groups, `{"a": "1"}`, false},
		"array of texts":    {Type{Type: JSON, Of: &Type{Type: Text}}, `["a", 1]`, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := test.typ.Parse(test.value); (err == nil) != test.good {
				t.Errorf("error is %v", err)
			}
		})
	}
}
