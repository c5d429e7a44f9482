package visible

import "testing"

func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "",
		"shop.example.com":       "shop.example.com",
		"Müller, 商店, שלום, 🙂":    "Müller, 商店, שלום, 🙂",
		"<script>&\"'":           "<script>&\"'",
		"shop\u202egnp.exe":      `shop\u202egnp.exe`,
		"a\u200fb\u2066c\u200bd": `a\u200fb\u2066c\u200bd`,
		"a\x00b\nc\x1b[31m":      `a\u0000b\u000ac\u001b[31m`,
		"line\u2028line":         `line\u2028line`,
		"broken\xff":             `broken\ufffd`,
	} {
		if got := Text(text); got != want {
			t.Errorf("Text(%q) = %q, want %q", text, got, want)
		}
	}
}
