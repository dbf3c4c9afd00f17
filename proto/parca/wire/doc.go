// Package wire is the messages of the gRPC services that Parca's agent calls: of profiles, of debug information and of its own crashes. The
// .proto files are Warpline's own and compatible on the wire; the Go files are generated from them with protoc 3.21 and protoc-gen-go of
// the version that go.mod names:
//
//	go install google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12
//	cd proto/parca/wire && go generate
package wire

//go:generate sh -c "cd ../../.. && protoc --go_out=. --go_opt=paths=source_relative proto/parca/wire/*.proto"

// Names of the methods.
const (
	WriteArrow           = "/parca.profilestore.v1alpha1.ProfileStoreService/WriteArrow"
	Write                = "/parca.profilestore.v1alpha1.ProfileStoreService/Write"
	ShouldInitiateUpload = "/parca.debuginfo.v1alpha1.DebuginfoService/ShouldInitiateUpload"
	InitiateUpload       = "/parca.debuginfo.v1alpha1.DebuginfoService/InitiateUpload"
	Upload               = "/parca.debuginfo.v1alpha1.DebuginfoService/Upload"
	MarkUploadFinished   = "/parca.debuginfo.v1alpha1.DebuginfoService/MarkUploadFinished"
	ReportPanic          = "/parca.telemetry.v1alpha1.TelemetryService/ReportPanic"
	ExportProfiles       = "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export"
)
