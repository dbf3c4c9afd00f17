//go:build steps

package main

import "github.com/warpline/warpline/cmd/warpline/e2e/steps"

// The source of the tests, see package steps.
func init() { sources = append(sources, source{steps.Door(), steps.Fold(), steps.Tables}) }
