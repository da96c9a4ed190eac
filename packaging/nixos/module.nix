# SPDX-License-Identifier: GPL-2.0-or-later
# A NixOS module: imports = [ /path/to/sluice/packaging/nixos/module.nix ];
#
#   services.sluice = {
#     enable = true;
#     rules = [ "tun* on" "vnet* on qdisc=fq_codel" ];
#   };
{ config, lib, pkgs, ... }:
let
  cfg = config.services.sluice;
  version = "0.1.0";
  kernel = config.boot.kernelPackages.kernel;
  build = "${kernel.dev}/lib/modules/${kernel.modDirVersion}/build";

  module = pkgs.stdenv.mkDerivation {
    pname = "sluice-module";
    inherit version;
    src = ../../kmod;
    nativeBuildInputs = kernel.moduleBuildDependencies;
    hardeningDisable = [ "pic" ];
    enableParallelBuilding = true;
    makeFlags = kernel.commonMakeFlags or kernel.makeFlags;
    buildFlags = [ "modules" ];
    preBuild = ''makeFlagsArray+=(-C ${build} M="$PWD")'';
    installPhase = ''
      install -D -m 644 -t "$out/lib/modules/${kernel.modDirVersion}/extra" sluice.ko
    '';
    meta.license = lib.licenses.gpl2Only;
  };

  command = pkgs.python3Packages.buildPythonApplication {
    pname = "sluice";
    inherit version;
    pyproject = true;
    src = ../..;
    build-system = [ pkgs.python3Packages.setuptools ];
    dependencies = with pkgs.python3Packages; [
      click
    ];
    doCheck = false;
    nativeBuildInputs = [ pkgs.installShellFiles ];
    postInstall = ''
      installManPage man/sluice.8 man/sluice.conf.5
    '';
    meta.license = lib.licenses.gpl2Plus;
  };
in
{
  options.services.sluice = {
    enable = lib.mkEnableOption "backpressure on TUN/TAP devices";
    rules = lib.mkOption {
      type = lib.types.listOf lib.types.str;
      default = [ ];
      example = [ "vnet* on qdisc=fq_codel" ];
      description = "Lines of sluice.conf(5); the last that matches a device applies.";
    };
    parameters = lib.mkOption {
      type = lib.types.attrsOf lib.types.int;
      default = { };
      example = { default_on = 0; };
      description = "Parameters of the module, see sluice(8).";
    };
    follow = lib.mkEnableOption "attaching a rule's qdisc when noqueue is set late";
  };

  config = lib.mkIf cfg.enable {
    boot.extraModulePackages = [ module ];
    boot.kernelModules = [ "sluice" ];
    boot.extraModprobeConfig = lib.optionalString (cfg.parameters != { }) (
      "options sluice "
      + lib.concatStringsSep " " (
        lib.mapAttrsToList (name: value: "${name}=${toString value}") cfg.parameters
      )
    );
    environment.systemPackages = [ command ];
    environment.etc."sluice.conf.d/50-nixos.conf".text = lib.concatLines cfg.rules;

    systemd.services.sluice = {
      description = "Backpressure on TUN/TAP devices";
      wantedBy = [ "multi-user.target" ];
      wants = [ "network-pre.target" ];
      after = [ "systemd-modules-load.service" ];
      # As the unit of the packages: it needs nothing but the root.
      before = [ "network-pre.target" "sysinit.target" "shutdown.target" ];
      conflicts = [ "shutdown.target" ];
      unitConfig.DefaultDependencies = false;
      restartTriggers = [ config.environment.etc."sluice.conf.d/50-nixos.conf".source ];
      serviceConfig = {
        Type = "oneshot";
        RemainAfterExit = true;
        ExecStart = "${command}/bin/sluice apply --keep";
      };
    };
    systemd.services.sluice-follow = lib.mkIf cfg.follow {
      description = "Attach the qdisc of its rule to TUN/TAP devices with noqueue";
      wantedBy = [ "multi-user.target" ];
      after = [ "sluice.service" ];
      requires = [ "sluice.service" ];
      serviceConfig = {
        ExecStart = "${command}/bin/sluice apply --keep --follow";
        Restart = "on-failure";
        RestartSec = 5;
      };
    };
  };
}
