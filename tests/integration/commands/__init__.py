# SPDX-License-Identifier: Apache-2.0
"""Random commands for the differential test: what to send, and what must be answered alike."""
