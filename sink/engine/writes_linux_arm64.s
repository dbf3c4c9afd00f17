#include "textflag.h"

// See writes_linux_amd64.s.
TEXT guardedWrite<>(SB), NOSPLIT|NOFRAME, $0-0
	MOVW R0, R9            // fd
	MOVD $64, R8           // write
	SVC
	CMN  $4095, R0
	BHS  failed            // unsigned: an error
	RET

failed:
	NEG  R0, R10           // errno
	CMPW $4, R10           // EINTR
	BEQ  set
	CMPW $11, R10          // EAGAIN
	BEQ  set
	CMPW $2, R9
	BLE  set
	SUB  $128, RSP         // struct stat
	MOVW R9, R0
	MOVD RSP, R1
	MOVD $80, R8           // fstat
	SVC
	MOVWU 16(RSP), R11     // st_mode
	ADD  $128, RSP
	CBNZ R0, set
	AND  $0xf000, R11, R11
	MOVD $0x8000, R12      // a regular file
	CMP  R12, R11
	BNE  set
	CMPW $28, R10          // ENOSPC
	BEQ  full
	CMPW $122, R10         // EDQUOT
	BEQ  full
	MOVD $5, R0            // exitDisk
	MOVD $94, R8           // exit_group
	SVC

full:
	SUB  $16, RSP
	MOVD ZR, 0(RSP)
	MOVD $5000000, R11     // ns
	MOVD R11, 8(RSP)
	MOVD RSP, R0
	MOVD ZR, R1
	MOVD $101, R8          // nanosleep
	SVC
	ADD  $16, RSP
	MOVD $4, R10           // EINTR

set:
	SUB  $32, RSP
	MOVD R30, 0(RSP)
	MOVD R10, 8(RSP)
	MOVD ·errnoLocation(SB), R11
	CALL (R11)
	MOVD 8(RSP), R10
	MOVD 0(RSP), R30
	ADD  $32, RSP
	MOVW R10, (R0)
	MOVD $-1, R0
	RET

DATA ·guardedWritePC(SB)/8, $guardedWrite<>(SB)
GLOBL ·guardedWritePC(SB), RODATA, $8
