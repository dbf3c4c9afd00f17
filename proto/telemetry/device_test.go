package telemetry_test

import (
	"strings"
	"testing"

	"github.com/warpline/warpline/proto/telemetry"
)

// What int() says of digits that it does not count with: it shows 200 characters of them, and it looks how many there are before it
// looks what they are.
func TestDeviceDigits(t *testing.T) {
	const shown, tooMany = "invalid literal for int() with base 10: ",
		"Exceeds the limit (4300 digits) for integer string conversion: value has "
	tests := []struct {
		device, message string
		code            telemetry.Code
	}{
		{"gpu:1²", shown + "'1²'", telemetry.NonASCIIDigits},
		{"gpu:" + strings.Repeat("²", 198), shown + "'" + strings.Repeat("²", 198) + "'", telemetry.NonASCIIDigits},
		{"gpu:" + strings.Repeat("²", 199), shown + "'" + strings.Repeat("²", 199), telemetry.NonASCIIDigits},
		{"gpu:" + strings.Repeat("²", 100_000), shown + "'" + strings.Repeat("²", 199), telemetry.NonASCIIDigits},
		{"gpu:" + strings.Repeat("1", 4300) + "²", shown + "'" + strings.Repeat("1", 199), telemetry.NonASCIIDigits},
		{"gpu:" + strings.Repeat("1", 4301) + "²1", tooMany + "4301 digits; use sys.set_int_max_str_digits() to increase the limit",
			telemetry.IntegerTooLong},
		{"gpu:" + strings.Repeat("\u0663", 4301), tooMany + "4301 digits; use sys.set_int_max_str_digits() to increase the limit",
			telemetry.IntegerTooLong},
		{"gpu:²" + strings.Repeat("1", 4301), shown + "'²" + strings.Repeat("1", 198), telemetry.NonASCIIDigits},
	}
	var v telemetry.Validator
	var e telemetry.Event
	for _, tt := range tests {
		r := v.Event(&e, []byte(`{"timestamp":1,"device":"`+tt.device+`"}`), &telemetry.Options{})
		if r == nil || r.Message != tt.message || r.Code != tt.code {
			t.Errorf("%.20s of %d bytes: %v, want %s: %s", tt.device, len(tt.device), r, tt.code, tt.message)
		}
	}
}
