package rpc

import (
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Error is an answer other than OK. after is how long the client is to wait before it tries again, sent as RetryInfo when it is above 0.
func Error(code codes.Code, words string, after time.Duration) error {
	s := status.New(code, words)
	if after > 0 {
		if with, err := s.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(after)}); err == nil {
			s = with
		}
	}
	return s.Err()
}
