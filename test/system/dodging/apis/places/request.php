<?php
// What PHP's $_REQUEST holds: it is GET, POST and then cookies without a php.ini.
header('Content-Type: text/plain');
echo $_REQUEST['api_key'] ?? '';
