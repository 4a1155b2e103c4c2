"""The date format of `relayer_service.console.dates`, for fields that Django renders."""

DATE_FORMAT = SHORT_DATE_FORMAT = "Y-m-d"
TIME_FORMAT = "H:i T"
DATETIME_FORMAT = SHORT_DATETIME_FORMAT = "Y-m-d H:i T"
