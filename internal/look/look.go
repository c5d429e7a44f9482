// Package look has the style that the HTML pages of all programs begin with: colors, text, links and headings.
package look

import _ "embed"

// CSS is the style. Pages add their own to it.
//
//go:embed look.css
var CSS string
